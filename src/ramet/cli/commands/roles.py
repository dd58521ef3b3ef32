"""`ramet db create role`: create a role in the database of a service."""

import sys
from dataclasses import dataclass

import click
import psycopg
from psycopg import sql

from ramet.api.schemas.services import Service
from ramet.cli.connection import connect, connection_string
from ramet.cli.ui.options import with_service
from ramet.cli.ui.output import say
from ramet.cli.user_files.passwords import find_password_of, passwords_path
from ramet.client import Client
from ramet.endpoints import ADMIN, address
from ramet.errors import Failed, NotFound
from ramet.model.passwords import new_password, scram_verifier
from ramet.model.secret import Secret


@dataclass(frozen=True)
class NewRole:
    """A role to create, with LOGIN."""

    name: str
    password: Secret
    read_only: bool = False
    parents: tuple[str, ...] = ()
    statement_timeout: str | None = None


@click.group("create")
def create_group() -> None:
    """Create roles in the databases of services."""


@create_group.command("role")
@with_service
@click.argument("name")
@click.option(
    "--read-only",
    is_flag=True,
    help="Let the role read everything that tsdbadmin can read, future tables included, and write nothing.",
)
@click.option("--from", "parents", multiple=True, metavar="ROLE", help="Grant membership in ROLE; may be repeated.")
@click.option("--statement-timeout", metavar="TIME", help="Set statement_timeout of the role, such as 30s.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the password from standard input, one line.")
def create_role(
    client: Client,
    service: Service,
    name: str,
    read_only: bool,
    parents: tuple[str, ...],
    statement_timeout: str | None,
    from_stdin: bool,
) -> None:
    """Create a role with LOGIN, and print its password. docs/read-only.md says what a read-only role cannot do.

    \b
    Examples:
      ramet db create role shop reporting --read-only --statement-timeout 30s
      pass show app | ramet db create role shop app --from tsdbadmin --stdin
    """
    endpoint = service.endpoint
    password = Secret(sys.stdin.readline().rstrip("\r\n")) if from_stdin else new_password()
    if not password.reveal():
        raise click.UsageError("--stdin: the first line of standard input must be the password (got an empty one).")
    admin = find_password_of(service)
    if admin is None:
        raise NotFound(
            "PASSWORD_NOT_KEPT",
            f"The password of {ADMIN} at {address(endpoint.host, endpoint.port)} is not saved in {passwords_path()}",
            "Set a new one with 'ramet service update-password'.",
        )
    wanted = NewRole(name, password, read_only, parents, statement_timeout)
    make_role(connection_string(endpoint, admin), wanted)
    say(f"{'Read-only role' if read_only else 'Role'} {name} is created.", "green")
    if not from_stdin:
        click.echo(password.reveal())


def make_role(uri: str, wanted: NewRole) -> None:
    """Create a role in one transaction. Raises Failed with the error of the server, which never quotes the verifier."""
    try:
        with connect(uri) as connection:
            for statement in _statements(wanted):
                connection.execute(statement)
    except psycopg.Error as error:
        raise Failed("ROLE_NOT_CREATED", f"Role {wanted.name!r} was not created", _reason(error)) from error


def _reason(error: psycopg.Error) -> str:
    parts = (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)
    return " ".join(part for part in parts if part) or ("" if error.sqlstate else str(error).strip())


def _statements(new: NewRole) -> list[sql.Composed]:
    role, verifier = sql.Identifier(new.name), sql.Literal(scram_verifier(new.password).reveal())
    if new.read_only:
        wanted = [
            sql.SQL("SELECT timescale_functions.create_bare_readonly_role({}, {})").format(new.name, verifier),
            sql.SQL("SELECT timescale_functions.grant_tsdbadmin_to_role({})").format(new.name),
        ]
    else:
        wanted = [sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, verifier)]
    # A read-only role reads what the admin can read without being a member of it.
    parents = [parent for parent in new.parents if not (new.read_only and parent == ADMIN)]
    wanted += [sql.SQL("GRANT {} TO {}").format(sql.Identifier(parent), role) for parent in parents]
    if new.statement_timeout is not None:
        setting = sql.SQL("ALTER ROLE {} SET statement_timeout = {}")
        wanted.append(setting.format(role, sql.Literal(new.statement_timeout)))
    return wanted
