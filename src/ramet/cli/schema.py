"""`ramet db schema`: the definitions in a service's database."""

import os
from pathlib import Path

import click

from ramet.backends.local.installation import find_installations
from ramet.cli.connection import connection_string
from ramet.cli.options import credentials_option, find_service, open_client, service_argument
from ramet.cli.passwords import find_password, passwords_path
from ramet.errors import Failed


@click.command("schema", context_settings={"ignore_unknown_options": True})
@service_argument
@click.argument("dump_arguments", nargs=-1, type=click.UNPROCESSED)
@credentials_option
def show_schema(service: str, dump_arguments: tuple[str, ...], credentials_file: Path | None) -> None:
    """Print the schema of a service's database as SQL. Further arguments go to pg_dump.

    \b
    Examples:
      ramet db schema shop > schema.sql
      ramet db schema shop -- --table orders
    """
    with open_client(credentials_file) as client:
        endpoint = find_service(client, service).endpoint
    program = find_installations().default.bin / "pg_dump"
    if not os.access(program, os.X_OK):
        raise Failed("NO_PG_DUMP", f"{program} is missing.", "Install PostgreSQL's client programs.")
    environ = dict(os.environ)
    if find_password(endpoint) is not None:
        environ["PGPASSFILE"] = str(passwords_path())
    arguments = [
        "pg_dump",
        "--schema-only",
        "--no-owner",
        "--no-privileges",
        *dump_arguments,
        connection_string(endpoint),
    ]
    os.execve(program, arguments, environ)  # noqa: S606 - no shell is meant
