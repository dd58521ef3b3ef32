"""`ramet db schema`: the definitions in a service's database."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

import click

from ramet.api.schemas.services import Service
from ramet.cli.commands.databases import endpoint_of
from ramet.cli.connection import connection_string, libpq_environ
from ramet.cli.ui.options import with_service
from ramet.cli.user_files.passwords import password_variables
from ramet.client import Client
from ramet.endpoints import ADMIN
from ramet.errors import Failed
from ramet.machine.installation import find_installations

_TOO_OLD = "server version mismatch"


@click.command("schema", context_settings={"ignore_unknown_options": True})
@with_service
@click.argument("dump_arguments", nargs=-1, type=click.UNPROCESSED)
def show_schema(client: Client, service: Service, dump_arguments: tuple[str, ...]) -> None:
    """Print the schema of the database of a service as SQL. Further arguments are passed to pg_dump.

    \b
    Examples:
      ramet db schema shop > schema.sql
      ramet db schema shop -- --table orders
    """
    endpoint = endpoint_of(client, service)
    environ = libpq_environ(password_variables(endpoint))
    dump_schema(service.name, connection_string(endpoint), environ, dump_arguments)


def dump_schema(service: str, uri: str, environ: Mapping[str, str], dump_arguments: Sequence[str]) -> None:
    """Print the schema at a URI. Raises Failed, with a remedy if the admin may not read a table of another role."""
    options = ["--schema-only", "--no-owner", "--no-privileges", *dump_arguments, uri]
    output = ""
    for program in _programs():
        done = subprocess.run([program, *options], env=environ, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            sys.stderr.write(done.stderr)
            return
        output = done.stderr
        if _TOO_OLD not in output:
            break
    raise _not_dumped(service, output)


def _programs() -> list[str]:
    """Return the pg_dump of each installation, the default first: pg_dump refuses a newer server."""
    known = find_installations()
    installed = sorted(known.found, key=lambda one: (one.major != known.default.major, one.major))
    programs = [str(one.bin / "pg_dump") for one in installed if os.access(one.bin / "pg_dump", os.X_OK)]
    if not programs:
        raise Failed(
            "NO_PG_DUMP", f"{known.default.bin / 'pg_dump'} is missing", "Install PostgreSQL's client programs."
        )
    return programs


def _not_dumped(service: str, output: str) -> Failed:
    errors = [line.partition("error: ")[2] for line in output.splitlines() if "error: " in line]
    reason = errors[0].strip() if errors else output.strip()
    denied = re.search(r"permission denied for (?:table|schema|sequence|view) (\S+)", output)
    if denied is None:
        return Failed("SCHEMA_NOT_READ", f"The schema of {service} could not be read", reason)
    return Failed(
        "SCHEMA_NOT_READ",
        f"The schema of {service} could not be read: {reason}",
        f"Its owner can let {ADMIN} read it (GRANT SELECT ON {denied[1]} TO {ADMIN}; a schema: GRANT USAGE ON SCHEMA); "
        f"or exclude it: ramet db schema {service} -- --exclude-table {denied[1]}, or --exclude-schema.",
    )
