"""`ramet db create role`: roles of a service's database, read-only ones too."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psycopg
from psycopg import sql

from ramet.cli.connection import connection_string
from ramet.cli.options import credentials_option, find_service, open_client, service_argument
from ramet.cli.output import say
from ramet.cli.passwords import ADMIN, find_password, passwords_path
from ramet.errors import Failed, NotFound
from ramet.model.credentials import Secret, new_password, scram_verifier

_SCHEMAS = """
SELECT nspname, has_schema_privilege(oid, 'USAGE WITH GRANT OPTION'), has_schema_privilege('public', oid, 'USAGE')
FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY nspname
"""
_RELATIONS = """
SELECT nspname, relname, CASE relkind WHEN 'S' THEN has_sequence_privilege(c.oid, 'SELECT WITH GRANT OPTION')
                                      ELSE has_table_privilege(c.oid, 'SELECT WITH GRANT OPTION') END,
       CASE relkind WHEN 'S' THEN has_sequence_privilege('public', c.oid, 'SELECT')
                    ELSE has_table_privilege('public', c.oid, 'SELECT') END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND nspname !~ '^pg_' AND nspname <> 'information_schema'
ORDER BY nspname, relname
"""
_TO_COME = (
    "ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO {}",
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {}",
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON SEQUENCES TO {}",
)
_SHOWN_LIMIT = 20


@dataclass(frozen=True)
class NewRole:
    """A role that is to be, which can log in."""

    name: str
    password: Secret
    read_only: bool = False
    parents: tuple[str, ...] = ()
    statement_timeout: str | None = None


@click.group("create")
def create_group() -> None:
    """Create things in the databases of services."""


@create_group.command("role")
@service_argument
@click.argument("name")
@click.option("--read-only", is_flag=True, help="It can read what is there and what will come, and cannot write.")
@click.option("--from", "parents", multiple=True, metavar="ROLE", help="Give it the rights of ROLE; may be repeated.")
@click.option("--statement-timeout", metavar="TIME", help="End its statements after TIME, such as 30s.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read its password from standard input, one line.")
@credentials_option
def create_role(
    service: str,
    name: str,
    read_only: bool,
    parents: tuple[str, ...],
    statement_timeout: str | None,
    from_stdin: bool,
    credentials_file: Path | None,
) -> None:
    """Create a role that can log in, and print its password. What a read-only role cannot do: docs/read-only.md.

    \b
    Examples:
      ramet db create role shop reporting --read-only --statement-timeout 30s
      pass show app | ramet db create role shop app --from tsdbadmin --stdin
    """
    with open_client(credentials_file) as client:
        endpoint = find_service(client, service).endpoint
    password = Secret(sys.stdin.readline().rstrip("\r\n")) if from_stdin else new_password()
    admin = find_password(endpoint)
    if admin is None:
        raise NotFound(
            "PASSWORD_NOT_KEPT",
            f"The admin's password of {endpoint.host}:{endpoint.port} is not in {passwords_path()}",
            "Set another one with 'ramet service update-password'.",
        )
    wanted = NewRole(name, password, read_only, parents, statement_timeout)
    unreadable = make_role(connection_string(endpoint, admin), wanted)
    say(f"Role {name} is created{' and reads only' if read_only else ''}.", "green")
    if unreadable:
        say(_cannot_read(name, unreadable), "yellow")
    if read_only and ADMIN in parents:
        say(f"A member of {ADMIN} can do more than read, its own mark included: docs/read-only.md.", "yellow")
    if not from_stdin:
        click.echo(password.reveal())


def make_role(uri: str, wanted: NewRole) -> list[str]:
    """Make a role in one transaction; return the schemas and tables that a read-only one was not given.

    Raises Failed with the server's reason, which never quotes the verifier.
    """
    try:
        with psycopg.connect(uri) as connection:
            for statement in _statements(wanted):
                connection.execute(statement)
            return _let_read(connection, sql.Identifier(wanted.name)) if wanted.read_only else []
    except psycopg.Error as error:
        raise Failed("ROLE_NOT_CREATED", f"Role {wanted.name!r} was not created", _reason(error)) from error


def _cannot_read(name: str, unreadable: list[str]) -> str:
    more = len(unreadable) - _SHOWN_LIMIT
    shown = ", ".join(unreadable[:_SHOWN_LIMIT]) + (f" and {more} more" if more > 0 else "")
    return (
        f"It cannot read what belongs to other roles: {shown}. Their owners may grant it: "
        f"GRANT USAGE ON SCHEMA ... TO {name}; GRANT SELECT ON ... TO {name};"
    )


def _reason(error: psycopg.Error) -> str:
    parts = (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)
    return " ".join(part for part in parts if part) or ("" if error.sqlstate else str(error).strip())


def _statements(new: NewRole) -> list[sql.Composed]:
    role, verifier = sql.Identifier(new.name), sql.Literal(scram_verifier(new.password).reveal())
    wanted = [sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, verifier)]
    wanted += [sql.SQL("GRANT {} TO {}").format(sql.Identifier(parent), role) for parent in new.parents]
    if new.statement_timeout is not None:
        setting = sql.SQL("ALTER ROLE {} SET statement_timeout = {}")
        wanted.append(setting.format(role, sql.Literal(new.statement_timeout)))
    if new.read_only:
        for parameter, value in (("tsdb_admin.read_only_role", "true"), ("default_transaction_read_only", "on")):
            setting = sql.SQL(f"ALTER ROLE {{}} SET {parameter} = {value}")
            wanted.append(setting.format(role))
        wanted += [sql.SQL(statement).format(role) for statement in _TO_COME]
    return wanted


def _let_read(connection: psycopg.Connection[tuple[Any, ...]], role: sql.Identifier) -> list[str]:
    """Let a role read all that the admin may let it read, now and of its own later; return what it cannot read."""
    unreadable = []
    for schema, is_ours, is_open in connection.execute(_SCHEMAS).fetchall():
        if is_ours:
            connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), role))
        elif not is_open:
            unreadable.append(f"schema {schema}")
    for schema, relation, is_ours, is_open in connection.execute(_RELATIONS).fetchall():
        if is_ours:
            connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(sql.Identifier(schema, relation), role))
        elif not is_open:
            unreadable.append(f"{schema}.{relation}")
    return unreadable
