"""`ramet db`: connection strings, and psql."""

import os
import shutil
from collections.abc import Sequence

import click

from ramet.api.schemas.services import Service
from ramet.api.schemas.shared import Endpoint
from ramet.cli.connection import connection_string, libpq_environ, speaks_tls
from ramet.cli.ui.options import parent_of_replica, service_command, with_service
from ramet.cli.user_files.passwords import (
    find_password,
    find_password_of,
    password_variables,
    passwords_path,
    save_password,
)
from ramet.client import Client
from ramet.endpoints import ADMIN, DATABASE, ConnectionFormat, address, connection_in, connection_variables
from ramet.errors import Error, Failed, Invalid, NotFound
from ramet.machine.installation import Installation, find_installations
from ramet.model.status import Status
from ramet.model.upstream import FollowMethod

_READ_ONLY = "-c tsdb_admin.read_only_connection=true -c default_transaction_read_only=on"
_pooled_option = click.option("--pooled", is_flag=True, help="Use the session pool of the pooler.")
_role_option = click.option("--role", default=ADMIN, show_default=True, help="Role to connect as.")


@service_command("connection-string")
@click.option("--with-password", is_flag=True, help="Include the saved password.")
@_pooled_option
@_role_option
@click.option(
    "--format",
    "format_",
    type=click.Choice([one.value for one in ConnectionFormat]),
    default=ConnectionFormat.URI.value,
    show_default=True,
    help="For which program: a URI for psql and drivers, or a string or a line of code for another one.",
)
def show_connection_string(
    client: Client, service: Service, with_password: bool, pooled: bool, role: str, format_: str
) -> None:
    """Print a connection string. It is a URI for psql and drivers, unless --format says otherwise.

    \b
    Examples:
      psql "$(ramet db connection-string shop --with-password)"
      ramet db url shop --format jdbc
      DATABASE_URL=$(ramet db connection-string preview-42 --with-password) make test
      ramet db connection-string shop --role reporting --pooled
    """
    if with_password and role != ADMIN:
        raise click.UsageError(
            f"--with-password cannot be used together with --role: only the password of {ADMIN} is saved."
        )
    endpoint = endpoint_of(client, service, pooled)
    password = find_password(endpoint) if with_password else None
    if with_password and password is None:
        raise NotFound(
            "PASSWORD_NOT_KEPT",
            f"The password of {address(endpoint.host, endpoint.port)} is not saved in {passwords_path()}",
            "'ramet service create' and 'ramet service fork' save it there for the user who runs them.",
        )
    click.echo(
        connection_in(ConnectionFormat(format_), connection_string(endpoint, password, role, _database_of(service)))
    )


@click.command("connect", context_settings={"ignore_unknown_options": True})
@with_service
@click.argument("psql_arguments", nargs=-1, type=click.UNPROCESSED)
@_pooled_option
@click.option("--read-only", is_flag=True, help="Open a session that cannot write; see docs/read-only.md.")
@_role_option
def connect(
    client: Client,
    service: Service,
    psql_arguments: tuple[str, ...],
    pooled: bool,
    read_only: bool,
    role: str,
) -> None:
    """Run psql on a service with the saved password. Further arguments are passed to psql.

    --read-only cannot be used with --pooled, except on a read replica set. Create a read-only role for that.

    \b
    Examples:
      ramet db connect shop
      ramet db connect --pooled shop
      ramet db connect --read-only shop
      ramet db connect --pooled --role reporting shop
      ramet db connect shop -- -c 'SELECT count(*) FROM orders'
      ramet db connect shop -- -d other
    """
    endpoint = endpoint_of(client, service, pooled)
    if service.status is Status.PAUSED:
        remedy = f"Resume it first: ramet service start {parent_of_replica(service) or service.service_id}"
        raise Invalid("SERVICE_PAUSED", f"{service.name} is PAUSED", remedy)
    if read_only and pooled and parent_of_replica(service) is None:
        raise Invalid(
            "POOLED_READ_ONLY",
            f"--read-only cannot be used with --pooled: clients of the pooler of {service.name} share sessions",
            f"Omit --pooled; or create a read-only role ('ramet db create role {service.service_id} NAME --read-only') "
            "and connect with --pooled --role NAME.",
        )
    if is_standby(service):
        click.echo(_standby_hint(service), err=True)
    program = find_psql(needs_tls=speaks_tls(endpoint))
    database = _database_of(service)
    saved = password_variables(endpoint) if (role, database) == (ADMIN, DATABASE) else {}
    options = {"PGOPTIONS": _READ_ONLY} if read_only else {}
    place = connection_variables(endpoint.host, endpoint.port, role=role, tls=speaks_tls(endpoint), database=database)
    environ = libpq_environ({**place, **saved, **options})
    os.execve(program, [program, *psql_arguments], environ)  # noqa: S606 - no shell is meant


def endpoint_of(client: Client, found: Service, pooled: bool = False) -> Endpoint:
    """Return where to connect, and save the password of the service for that endpoint too.

    The pooler of a service, its replicas and their poolers accept the same passwords on other ports, and the service
    itself had other addresses before.
    """
    endpoint = found.endpoint
    if pooled:
        if found.connection_pooler is None:
            raise NotFound(
                "NO_POOLER",
                f"{found.name} has no pooler",
                f"To enable it: ramet service pooler enable {found.service_id}",
            )
        endpoint = found.connection_pooler.endpoint
    parent = parent_of_replica(found)
    password = find_password_of(found if parent is None else client.get_service(parent))
    if password is not None and find_password(endpoint) != password:
        save_password(endpoint, password)
    return endpoint


def is_standby(service: Service) -> bool:
    """Tell whether a service is a standby of a server elsewhere: it has the databases and roles of that."""
    following = service.metadata.following
    return following is not None and following.method is FollowMethod.PHYSICAL


def _database_of(service: Service) -> str:
    following = service.metadata.following
    if following is None or not is_standby(service):
        return DATABASE
    return following.source.rpartition("/")[2]


def _standby_hint(service: Service) -> str:
    following = service.metadata.following
    source = "" if following is None else following.source
    return (
        f"{service.name} follows {source}, so this session is read-only, and --role names a role of the source.\n"
        f"To stop following, and make it writable: ramet service promote {service.service_id}"
    )


def find_psql(*, needs_tls: bool) -> str:
    """Return the path of psql: the one in PATH, else one of an installed server, that of the wheel included.

    Raises Failed if there is none, or none with TLS for an endpoint that requires it.
    """
    found = shutil.which("psql")
    if found is not None:
        return found
    there = [one for one in known_installations() if os.access(one.bin / "psql", os.X_OK)]
    usable = [one for one in there if one.has_tls or not needs_tls]
    if usable:
        return str(usable[0].bin / "psql")
    remedy = "Install it (Debian: postgresql-client)."
    if there:
        raise Failed("PSQL_WITHOUT_TLS", f"{there[0].bin / 'psql'} has no TLS, and the endpoint requires it", remedy)
    raise Failed("NO_PSQL", "psql is not installed on this host", remedy)


def known_installations() -> Sequence[Installation]:
    """Return the servers that are installed on this host; none is no error here."""
    try:
        return find_installations().found
    except Error:
        return ()
