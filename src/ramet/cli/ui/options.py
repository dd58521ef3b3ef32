"""Options and arguments that several commands share, and how a SERVICE argument finds its service."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
from msgspec import UNSET, UnsetType

from ramet.api.schemas.services import Service
from ramet.cli.user_files.credentials import CREDENTIALS_VARIABLE, find_credentials
from ramet.cli.user_files.preferences import FORMATS, preferred_output
from ramet.client import ApiError, Client
from ramet.errors import Error, Forbidden, Invalid, NotFound
from ramet.ids import is_id
from ramet.likeness import suggestion
from ramet.model.environment import Environment
from ramet.model.wal_level import WalLevel

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


@dataclass
class Listing:
    """The services of a project, which a command asks for once, if at all."""

    client: Client

    @functools.cached_property
    def services(self) -> list[Service]:
        """All of them."""
        return self.client.list_services()


class HasName(Protocol):
    """What is found by its name."""

    @property
    def name(self) -> str | None: ...


class Parent(Protocol):
    """What is known of a service to fork."""

    @property
    def service_id(self) -> str: ...

    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=HasName)
_COMPLETION_SECONDS = 2.0
_WORD = r"[\w.-]+"  # what a shell takes as it is

FILE = click.Path(dir_okay=False, path_type=Path)
ENVIRONMENT = click.Choice(Environment, case_sensitive=False)
WAL_LEVEL = click.Choice(WalLevel, case_sensitive=False)
DIRECTORY = click.Path(file_okay=False, path_type=Path)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default=lambda: preferred_output()[0],
    show_default="table, or the format of 'ramet config set output'",
    help="Format of results.",
)
credentials_option = click.option(
    "--credentials-file",
    type=FILE,
    envvar=CREDENTIALS_VARIABLE,
    help="File with server, project and key, as 'ramet up --credentials-file' writes it.",
)
data_option = click.option(
    "--data",
    "data_dir",
    type=DIRECTORY,
    help="Data directory.  [default: RAMET_DATA_DIR, or the usual one]",
)
password_option = click.option(
    "--no-save-password", is_flag=True, help="Print the password instead of saving it for 'ramet db connect'."
)


class LimitOrNone(click.ParamType[int | UnsetType | None]):
    """A number of another type in some unit, or a word that means None; UNSET where nothing was given."""

    def __init__(self, inner: click.ParamType[Any], word: str = "none", unit: int = 1) -> None:
        self.inner, self.word, self.unit, self.name = inner, word, unit, inner.name

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | UnsetType | None:
        """Return the number in the interface's unit, None for the word, UNSET as it is."""
        if value is UNSET:
            return UNSET
        return None if value == self.word else round(self.inner.convert(value, param, ctx) * self.unit)


def named_output(output: str) -> str:
    """Return the format that the command line names, else the table: for what is printed without an end.

    A preferred format is for results.
    """
    source = click.get_current_context().get_parameter_source("output")
    return output if source is click.core.ParameterSource.COMMANDLINE else FORMATS[0]


def with_client(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --credentials-file, and call the command with a `client` of its project, which is closed at the end."""

    @functools.wraps(command)
    def connected(*, credentials_file: Path | None, **named: Any) -> Any:
        with open_client(credentials_file) as client:
            return command(client=client, **named)

    with_option = credentials_option(connected)
    parameters = vars(with_option)["__click_params__"]
    parameters.insert(0, parameters.pop())  # the help shows this option after those that were added before
    return with_option


def with_service(command: Callable[..., Any]) -> Callable[..., Any]:
    """Do as `with_client`, and add the first argument SERVICE: the command gets the service with that id or name."""

    @functools.wraps(command)
    def found(*, client: Client, service: str, **named: Any) -> Any:
        return command(client=client, service=find_service(client, service), **named)

    return click.argument("service", shell_complete=complete_service)(with_client(found))


def service_command(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function, which gets a service: see `with_service`."""
    return lambda command: click.command(name)(with_service(command))


def with_parent(command: Callable[..., Any]) -> Callable[..., Any]:
    """Do as `with_service`, but pass the id as `parent_id`, with `from_deleted` that of a deleted service.

    The command also gets the services as `known`.
    """

    @functools.wraps(command)
    def found(*, client: Client, service: str, from_deleted: bool, **named: Any) -> Any:
        known = Listing(client)
        if from_deleted:
            deleted, remedy = client.list_deleted_services(), "See 'ramet service list --deleted'."
            parent_id = find_named(deleted, service, "deleted service", remedy, id_field="service_id").service_id
        else:
            parent_id = find_parent(client, service, known).service_id
        return command(client=client, parent_id=parent_id, known=known, from_deleted=from_deleted, **named)

    return click.argument("service", shell_complete=complete_service)(with_client(found))


def open_client(credentials_file: Path | None, timeout_seconds: float = 30.0) -> Client:
    """Return a client of the project that the user's credentials open."""
    found = find_credentials(credentials_file)
    return Client(
        found.base_url,
        found.project_id,
        found.public_key,
        found.secret_key,
        ca=found.ca,
        timeout_seconds=timeout_seconds,
    )


def find_service(client: Client, service: str) -> Service:
    """Return the service with that id, or the only one with that name."""
    try:
        return _find_visible(client, service)
    except NotFound:
        if any(service in (one.service_id, one.name) for one in _parents_of_key(client)):
            raise Forbidden(
                "FORBIDDEN",
                f"This key may fork service {service!r}, but not read or change it",
                "Fork it, or use a key with another role.",
            ) from None
        raise


def find_parent(client: Client, service: str, known: Listing | None = None) -> Parent:
    """Return a service to fork; the key of a forker may fork services that it does not see."""
    try:
        return _find_visible(client, service, known)
    except NotFound:
        parents = _parents_of_key(client)
        if not parents:
            raise
        return find_named(parents, service, "service", "See 'ramet service list'.", id_field="service_id")


def _find_visible(client: Client, service: str, known: Listing | None = None) -> Service:
    if is_id(service):
        try:
            return client.get_service(service)
        except ApiError as error:
            if error.status != 404:
                raise
    listed = (known or Listing(client)).services
    return find_named(listed, service, "service", "See 'ramet service list'.", id_field="service_id")


def _parents_of_key(client: Client) -> Sequence[Parent]:
    return client.auth_info().api_key.parents or []


def parent_of_replica(service: Service) -> str | None:
    """Return the id of the service that a read replica set belongs to, or None for any other service."""
    origin = service.forked_from
    return origin.service_id if origin is not None and origin.is_standby else None


def find_named(known: Sequence[Named], wanted: str, thing: str, remedy: str, id_field: str = "id") -> Named:
    """Return what has the id `wanted`, or is the only `thing` with that name. Raises NotFound, or Invalid."""
    ids = [getattr(one, id_field) for one in known]
    if wanted in ids:
        return known[ids.index(wanted)]
    found = [one for one in known if one.name == wanted]
    if not found:
        code = f"{thing.upper().replace(' ', '_')}_NOT_FOUND"
        alike = suggestion(wanted, [one.name for one in known if one.name is not None])
        raise NotFound(code, f"No {thing} has the id or the name {wanted!r}", f"{alike}{remedy}")
    if len(found) > 1:
        choices = ", ".join(getattr(one, id_field) for one in found)
        raise Invalid("AMBIGUOUS_NAME", f"{len(found)} {thing}s are named {wanted!r}", f"Give an id: {choices}.")
    return found[0]


def complete_service(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the services whose name or id begins so, for the completion of a shell: by their names if these serve."""
    from click.shell_completion import CompletionItem  # only shells need it

    try:
        with open_client(ctx.params.get("credentials_file"), _COMPLETION_SECONDS) as client:
            services = client.list_services()
    except Error:
        return []  # completion shows no errors
    names = Counter(one.name for one in services)
    found = []
    for one in services:
        if one.name.startswith(incomplete) or one.service_id.startswith(incomplete):
            is_word = names[one.name] == 1 and re.fullmatch(_WORD, one.name) and one.name.startswith(incomplete)
            word = one.name if is_word else one.service_id
            found.append(CompletionItem(word, help=f"{one.name} ({one.status})"))
    return found
