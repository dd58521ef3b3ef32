"""`ramet key`: the API keys of a project, through the interface with an admin's key, or on the host without one."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec
from msgspec import UNSET

from ramet.api.schemas.keys import Key, KeyWithSecret
from ramet.cli.commands.projects import address_of, existing_projects, project_id_of
from ramet.cli.ui.durations import Duration, local_time, shown_duration
from ramet.cli.ui.options import FILE, LimitOrNone, data_option, find_service, open_client, output_option
from ramet.cli.ui.output import print_data, print_pairs, print_result, print_rows, say
from ramet.cli.ui.secrets import shown_if_unsaved
from ramet.cli.user_files.credentials import CREDENTIALS_VARIABLE, Credentials, write_credentials
from ramet.client import Client
from ramet.control.projects import Projects
from ramet.errors import Unauthorized
from ramet.model.keys import KeyLimits
from ramet.model.rights import Role
from ramet.model.timestamps import parse_timestamp, rfc3339

_project_option = click.option("--project", help="Project, by name or id, on its host.  [default: that of your key]")
_LIMITS = ("max_fork_ttl_seconds", "max_services", "max_forks", "max_cpu_millis", "max_memory_gbs", "max_storage_gbs")


class _Keys(Protocol):
    """The keys of one project."""

    @property
    def project_id(self) -> str: ...

    @property
    def credentials(self) -> Callable[[KeyWithSecret], Credentials]: ...

    def list(self) -> Sequence[Key]: ...

    def create(self, name: str, role: Role, fields: dict[str, Any]) -> KeyWithSecret: ...

    def update(self, public_key: str, changes: dict[str, Any]) -> Key: ...

    def rotate(self, public_key: str, overlap_seconds: int) -> KeyWithSecret: ...

    def revoke(self, public_key: str) -> None: ...


class _OverHttp:
    def __init__(self, client: Client) -> None:
        self._client, self.project_id = client, client.project_id

    def credentials(self, made: KeyWithSecret) -> Credentials:
        at = self._client
        return Credentials(at.base_url, at.project_id, made.public_key, made.secret_key, at.ca)

    def list(self) -> Sequence[Key]:
        return self._client.list_keys()

    def create(self, name: str, role: Role, fields: dict[str, Any]) -> KeyWithSecret:
        return self._client.create_key(name, role, **self._named(fields))

    def update(self, public_key: str, changes: dict[str, Any]) -> Key:
        return self._client.update_key(public_key, **self._named(changes))

    def rotate(self, public_key: str, overlap_seconds: int) -> KeyWithSecret:
        return self._client.rotate_key(public_key, overlap_seconds)

    def revoke(self, public_key: str) -> None:
        self._client.revoke_key(public_key)

    def _named(self, fields: dict[str, Any]) -> dict[str, Any]:
        if "parents" not in fields:
            return fields
        return {**fields, "parents": [find_service(self._client, one).service_id for one in fields["parents"]]}


class _OnHost:
    def __init__(self, projects: Projects, project: str | None, address: tuple[str, str]) -> None:
        self._projects, self._project, self._address = projects, project, address

    @property
    def project_id(self) -> str:
        """The id of the project that was named, else of the only one; a key is revoked without it."""
        return project_id_of(self._projects, self._project)

    def credentials(self, made: KeyWithSecret) -> Credentials:
        base_url, ca = self._address
        return Credentials(base_url, self.project_id, made.public_key, made.secret_key, ca)

    def list(self) -> Sequence[Key]:
        return [Key.of(one) for one in self._projects.list_keys(self.project_id)]

    def create(self, name: str, role: Role, fields: dict[str, Any]) -> KeyWithSecret:
        fields, now = dict(fields), self._projects.clock()
        expires_at = _parsed(fields.pop("expires_at", None))
        limits = msgspec.convert(fields, KeyLimits)
        made, secret = self._projects.create_key(
            self.project_id, name, now, role=role, expires_at=expires_at, limits=limits
        )
        return KeyWithSecret.with_secret(made, secret)

    def update(self, public_key: str, changes: dict[str, Any]) -> Key:
        if "expires_at" in changes:
            changes = {**changes, "expires_at": _parsed(changes["expires_at"])}
        return Key.of(self._projects.change_key(self.project_id, public_key, self._projects.clock(), **changes))

    def rotate(self, public_key: str, overlap_seconds: int) -> KeyWithSecret:
        now = self._projects.clock()
        return KeyWithSecret.with_secret(*self._projects.rotate_key(self.project_id, public_key, overlap_seconds, now))

    def revoke(self, public_key: str) -> None:
        self._projects.revoke_key(public_key, self._projects.clock())


def _parsed(expires_at: str | None) -> datetime | None:
    return None if expires_at is None else parse_timestamp("expires_at", expires_at)


@contextmanager
def _keys(project: str | None, data_dir: Path | None) -> Iterator[_Keys]:
    """Yield the keys of a project: on this host if that is named, or its data directory, or without credentials."""
    client: Client | None = None
    if project is None and data_dir is None:
        try:
            client = open_client(None)
        except Unauthorized:
            if os.environ.get(CREDENTIALS_VARIABLE):
                raise  # a file that is named and missing must not lead to another installation
    if client is not None:
        with client:
            yield _OverHttp(client)
        return
    with existing_projects(data_dir) as projects:
        yield _OnHost(projects, project, address_of(data_dir))


def _limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of what a key may have; the command gets what was given as `limits`."""
    integer = LimitOrNone(click.INT)
    options = (
        click.option("--max-fork-ttl", "max_fork_ttl_seconds", type=LimitOrNone(Duration()), default=UNSET,
                     help="Longest life span of its forks, from their creation."),
        click.option("--max-services", type=integer, default=UNSET, help="Most services at once, forks included."),
        click.option("--max-forks", type=integer, default=UNSET, help="Most forks at once."),
        click.option("--max-cpu-millis", type=integer, default=UNSET, help="Most thousandths of a core in all."),
        click.option("--max-memory-gbs", type=integer, default=UNSET, help="Most gigabytes of memory in all."),
        click.option("--max-storage-gbs", type=integer, default=UNSET, help="Most gigabytes on disk in all."),
        click.option("--expires-in", type=LimitOrNone(Duration()), default=UNSET, help="When it expires, from now."),
        click.option("--parent", "parents", multiple=True, metavar="SERVICE",
                     help="A service that a forker may fork; may be repeated. On the host, by its id."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _fields(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that options make."""
    fields = {name: given[name] for name in _LIMITS if given[name] is not UNSET}
    if (seconds := given["expires_in"]) is not UNSET:
        until = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        fields["expires_at"] = None if until is None else rfc3339(until)
    if given["parents"]:
        fields["parents"] = list(given["parents"])
    return fields


@click.group("key")
def key_group() -> None:
    """Make, list, change, rotate and revoke API keys.

    With your own key, which must be an admin's; with --project or --data, or without a key, on the host itself.
    """


@key_group.command("list")
@_project_option
@output_option
@data_option
def list_keys(project: str | None, output: str, data_dir: Path | None) -> None:
    """List the keys of a project, including revoked keys.

    \b
    Example:
      ramet key list
    """
    with _keys(project, data_dir) as keys:
        found, project_id = keys.list(), keys.project_id
    columns = ("public key", "name", "role", "created", "last used", "expires", "revoked")
    rows = [
        (
            one.public_key,
            one.name,
            one.role,
            *map(local_time, (one.created, one.last_used, one.expires_at, one.revoked)),
        )
        for one in found
    ]
    print_result([_plain(one, project_id) for one in found], output, lambda: print_rows(columns, rows))


@key_group.command("create")
@_project_option
@click.option("--name", default="ramet key create", help="Name of the key.")
@click.option(
    "--role",
    type=click.Choice(Role, case_sensitive=False),
    default=Role.ADMIN,
    show_default=True,
    help="What the key may do; see docs/teams.md.",
)
@_limit_options
@click.option("--credentials-file", type=FILE, help="Write the key to this file instead of printing it.")
@output_option
@data_option
def create_key(
    project: str | None,
    name: str,
    role: Role,
    credentials_file: Path | None,
    output: str,
    data_dir: Path | None,
    **given: Any,
) -> None:
    """Create a key for a project. Its secret cannot be shown again.

    \b
    Examples:
      ramet key create --name alice --role developer
      ramet key create --name ci --role forker --parent shop --max-forks 20 --max-fork-ttl 2h
      ramet key create --project rp1pz7uyae --credentials-file ci.json
    """
    with _keys(project, data_dir) as keys:
        made = keys.credentials(keys.create(name, role, _fields(given)))
    _show(made, credentials_file, output)


@key_group.command("update")
@click.argument("public_key")
@_project_option
@click.option("--name", help="Another name.")
@_limit_options
@output_option
@data_option
def update_key(
    public_key: str, project: str | None, name: str | None, output: str, data_dir: Path | None, **given: Any
) -> None:
    """Change the name, the expiry and the limits of a key. 'none' removes a limit. Its role stays.

    \b
    Examples:
      ramet key update RK3X9… --expires-in 90d
      ramet key update RK3X9… --max-forks none
    """
    changes = _fields(given) | ({} if name is None else {"name": name})
    if not changes:
        raise click.UsageError("Give at least one option.")
    with _keys(project, data_dir) as keys:
        changed = _plain(keys.update(public_key, changes), keys.project_id)
    print_result(changed, output, lambda: print_pairs([(name, str(value)) for name, value in changed.items()]))


@key_group.command("rotate")
@click.argument("public_key")
@_project_option
@click.option("--overlap", type=Duration(), default=3600.0, show_default="1h", help="How long both secrets are valid.")
@click.option("--credentials-file", type=FILE, help="Write the key to this file instead of printing it.")
@output_option
@data_option
def rotate_key(
    public_key: str,
    project: str | None,
    overlap: float,
    credentials_file: Path | None,
    output: str,
    data_dir: Path | None,
) -> None:
    """Give a key another secret. The present one is accepted for a while, too.

    \b
    Example:
      ramet key rotate RK3X9… --overlap 1d --credentials-file ci.json
    """
    with _keys(project, data_dir) as keys:
        made = keys.credentials(keys.rotate(public_key, round(overlap)))
    _show(made, credentials_file, output)
    say(
        f"The secret before is accepted for {shown_duration(overlap)} more."
        if overlap
        else "The secret before is void."
    )


@key_group.command("revoke")
@click.argument("public_key")
@_project_option
@data_option
def revoke_key(public_key: str, project: str | None, data_dir: Path | None) -> None:
    """Revoke a key: requests with it are refused from now on.

    \b
    Example:
      ramet key revoke RK3X9…
    """
    with _keys(project, data_dir) as keys:
        keys.revoke(public_key)
    say(f"{public_key} is revoked.")


def _show(made: Credentials, credentials_file: Path | None, output: str) -> None:
    if credentials_file is not None:
        with shown_if_unsaved(f"The secret of key {made.public_key}", made.secret_key):
            write_credentials(credentials_file, made)
        say(f"The key is saved in {credentials_file}.")
    elif output != "table":
        print_data(made, output)
    else:
        print_pairs([("project", made.project_id), ("public key", made.public_key), ("secret key", made.secret_key)])
        say("The secret cannot be shown again.")


def _plain(key: Key, project_id: str) -> dict[str, Any]:
    """Return a key as programs get it; `revoked` is null while it is not."""
    return {"project_id": project_id, "revoked": None, **msgspec.to_builtins(key)}
