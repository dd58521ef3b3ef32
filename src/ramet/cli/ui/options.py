"""Options and arguments that several commands share, and how a SERVICE argument finds its service."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ramet.api.schemas.services import Service
from ramet.cli.ui.output import FORMATS
from ramet.cli.user_files.credentials import CREDENTIALS_VARIABLE, find_credentials
from ramet.cli.user_files.preferences import preferred_output
from ramet.client import ApiError, Client
from ramet.errors import Error, Invalid, NotFound
from ramet.ids import is_id
from ramet.model.service import Environment
from ramet.settings import describe_settings

Command = TypeVar("Command", bound=Callable[..., Any])
_COMPLETION_SECONDS = 2.0

FILE = click.Path(dir_okay=False, path_type=Path)
ENVIRONMENT = click.Choice([one.value for one in Environment], case_sensitive=False)
DIRECTORY = click.Path(file_okay=False, path_type=Path)


def output_option(command: Command) -> Command:
    """Add -o."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default=preferred_output,
        show_default="table, or what 'ramet config set output' says",
        help="How results are printed.",
    )(command)


def credentials_option(command: Command) -> Command:
    """Add --credentials-file, for commands that talk to a server."""
    return click.option(
        "--credentials-file",
        type=FILE,
        envvar=CREDENTIALS_VARIABLE,
        help="Server, project and key, as 'ramet up --credentials-file' writes them.",
    )(command)


def data_option(command: Command) -> Command:
    """Add --data, for commands that work on a data directory of this host."""
    return click.option(
        "--data",
        "data_dir",
        type=DIRECTORY,
        help="Data directory.  [default: RAMET_DATA_DIR, or the usual one]",
    )(command)


def setting_option(name: str) -> Callable[[Command], Command]:
    """Add the option of a setting, which overrides its variable; the command gets it as it was typed."""
    setting = describe_settings()[name]
    meaning = f"{setting.meaning[:1].upper()}{setting.meaning[1:]}."
    return click.option(f"--{name.replace('_', '-')}", help=f"{meaning}  [default: {setting.default}]")


def password_option(command: Command) -> Command:
    """Add --no-save-password."""
    return click.option(
        "--no-save-password", is_flag=True, help="Show the password instead of keeping it for 'ramet db connect'."
    )(command)


def service_argument(command: Command) -> Command:
    """Add the SERVICE argument: an id, or a name that only one service has."""
    return click.argument("service", shell_complete=_complete_service)(command)


def open_client(credentials_file: Path | None) -> Client:
    """Return a client of the project that the user's credentials open."""
    found = find_credentials(credentials_file)
    return Client(found.base_url, found.project_id, found.public_key, found.secret_key)


def find_service(client: Client, service: str) -> Service:
    """Return the service with that id, or the only one with that name."""
    if is_id(service):
        try:
            return client.get_service(service)
        except ApiError as error:
            if error.status != 404:
                raise
    named = [one for one in client.list_services() if one.name == service]
    if not named:
        raise NotFound(
            "SERVICE_NOT_FOUND", f"No service has the id or the name {service!r}", "See 'ramet service list'."
        )
    if len(named) > 1:
        ids = ", ".join(one.service_id for one in named)
        raise Invalid("AMBIGUOUS_NAME", f"{len(named)} services are named {service!r}", f"Give an id: {ids}.")
    return named[0]


def _complete_service(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        found = find_credentials(ctx.params.get("credentials_file"))
        with Client(
            found.base_url,
            found.project_id,
            found.public_key,
            found.secret_key,
            timeout_seconds=_COMPLETION_SECONDS,
        ) as client:
            services = client.list_services()
    except Error:
        return []  # a shell that completes is no place for errors
    return [
        CompletionItem(one.service_id, help=f"{one.name} ({one.status})")
        for one in services
        if one.service_id.startswith(incomplete) or one.name.startswith(incomplete)
    ]
