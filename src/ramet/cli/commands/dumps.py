"""`ramet db dump`: the database of a service as a plain SQL script that any PostgreSQL loads."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import click

from ramet.api.schemas.services import Service
from ramet.cli.commands.databases import endpoint_of, known_installations
from ramet.cli.connection import connection_string, libpq_environ, speaks_tls
from ramet.cli.ui.options import FILE, service_command
from ramet.cli.user_files.files import writing
from ramet.cli.user_files.passwords import password_variables
from ramet.client import Client
from ramet.errors import Failed
from ramet.machine.installation import SUPPORTED_MAJORS

# What the platform has put into the database; other servers have no use for it.
_OUR_SCHEMA = "timescale_functions"
_OURS = re.compile(
    r"^\d+; \d+ \d+ (COMMENT - )?"
    r"(EVENT TRIGGER (- )?ramet_begin_session|EXTENSION (- )?pg_stat_statements|SCHEMA (- )?timescale_functions)\b"
)
_PORTABLE = ("--no-owner", "--no-privileges", "--no-tablespaces", "--no-security-labels", "--no-subscriptions")
_STANDARD_OUTPUT = Path("-")
# Programs from 17 on begin a script with it, for whatever server.
_TIMEOUT, _TIMEOUT_SINCE = b"SET transaction_timeout = 0;\n", 17
_AFTER_TIMEOUTS = b"SET client_encoding"
_POLICY = re.compile(r"^\d+; \d+ \d+ POLICY ")
_IDENTIFIER = rb'(?:"(?:[^"]|"")+"|[^\s",.();]+)'
_NAME = re.compile(_IDENTIFIER)
_CREATE_POLICY = re.compile(
    rb"^CREATE POLICY %(name)s ON %(name)s\.%(name)s(?: AS RESTRICTIVE)?(?: FOR (?:SELECT|INSERT|UPDATE|DELETE))?"
    rb" TO (?P<roles>%(name)s(?:, %(name)s)*)(?: USING | WITH CHECK |;)" % {b"name": _IDENTIFIER},
    re.MULTILINE,
)
_MAKE_ROLE = b"""BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %s) THEN CREATE ROLE %s NOLOGIN; END IF;
END"""


@service_command("dump")
@click.option("--schema-only", is_flag=True, help="Leave out the data.")
@click.option("-f", "--file", type=FILE, default=_STANDARD_OUTPUT, help="File to write.  [default: standard output]")
def dump_database(client: Client, service: Service, schema_only: bool, file: Path) -> None:
    """Write the database of a service as a plain SQL script.

    The script has schema and data as of one moment, and large objects. It can be loaded into any PostgreSQL of the same
    or a later version by any role: owners, privileges, tablespaces and subscriptions are left out. It is written when
    it is complete.

    \b
    Examples:
      ramet db dump shop --file shop.sql
      ramet db dump shop --schema-only --file schema.sql
      ramet db dump shop | psql postgresql://me@elsewhere/shop
    """
    endpoint = endpoint_of(client, service)
    major = service.metadata.pg_major
    programs = find_dump_programs(major, needs_tls=speaks_tls(endpoint))
    environ = libpq_environ(password_variables(endpoint))
    content = ["--schema-only", "--no-publications"] if schema_only else ["-b"]
    is_printed = file == _STANDARD_OUTPUT
    is_replaced = not is_printed and _is_replaced(file)
    directory = file.absolute().parent if is_replaced else None
    with (
        nullcontext() if is_printed else writing(file),
        tempfile.TemporaryDirectory(prefix=".ramet-dump-", dir=directory) as name,
    ):
        written = _dump(programs, connection_string(endpoint), Path(name), content, environ, major)
        if is_replaced:
            with suppress(FileNotFoundError):
                shutil.copymode(file, written)
            written.replace(file)
            return
        with written.open("rb") as script, nullcontext(sys.stdout.buffer) if is_printed else file.open("wb") as target:
            shutil.copyfileobj(script, target)


def _is_replaced(file: Path) -> bool:
    """Tell whether a file is new, or a regular one: a device, a pipe and a symbolic link stay, and are written into."""
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except OSError:
        return True


def find_dump_programs(major: int | None, *, needs_tls: bool) -> Path:
    """Return the directory of pg_dump and pg_restore for a server: of its major version, else of the next one here.

    Those in PATH count where no server has them. Older ones cannot dump, and newer ones write what only newer servers
    load. Raises Failed if there are none, or none with TLS for an endpoint that requires it.
    """
    there = [one for one in known_installations() if _has_both(one.bin)]
    wanted = major or max((one.major for one in there), default=SUPPORTED_MAJORS[0])
    recent = [one for one in there if one.major >= wanted]
    usable = [one for one in recent if one.has_tls or not needs_tls]
    if usable:
        return min(usable, key=lambda one: (one.major, -one.minor)).bin
    in_path = Path(shutil.which("pg_dump") or "pg_dump").parent
    if _has_both(in_path) and in_path not in [one.bin for one in there]:
        return in_path
    lacking = "has no TLS, and the endpoint requires it" if recent else "is not installed on this host"
    raise Failed(
        "NO_PG_DUMP", f"pg_dump of PostgreSQL {wanted} or newer {lacking}", "Install it (Debian: postgresql-client)."
    )


def _has_both(directory: Path) -> bool:
    return all(os.access(directory / name, os.X_OK) for name in ("pg_dump", "pg_restore"))


def _dump(
    programs: Path,
    uri: str,
    directory: Path,
    content: Sequence[str],
    environ: Mapping[str, str],
    major: int | None,
) -> Path:
    """Dump the database of a server of a version into a directory; return the script.

    What is not the tenant's is left out by pg_restore, and a setting that servers of that version do not know here.
    """
    archive, contents, script = (directory / name for name in ("archive", "contents", "script"))
    options = [*content, "--format=custom", "--compress=1", f"--exclude-schema={_OUR_SCHEMA}", *_PORTABLE]
    _run([str(programs / "pg_dump"), *options, "--file", str(archive), uri], environ)
    _run([str(programs / "pg_restore"), "--list", "--file", str(contents), str(archive)], environ)
    kept = [line for line in contents.read_text(errors="surrogateescape").splitlines() if not _OURS.match(line)]
    policies = [line for line in kept if _POLICY.match(line)]
    with script.open("wb") as written:
        if policies:
            text = _restored(programs, archive, policies, environ, directory / "policies")
            written.write(roles_of_policies(text.read_bytes()))
        with _restored(programs, archive, kept, environ, directory / "rest").open("rb") as rest:
            if major is not None and major < _TIMEOUT_SINCE:
                written.writelines(_head_without_timeout(rest))
            shutil.copyfileobj(rest, written)
    return script


def _head_without_timeout(script: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the first lines of a script, up to those after the time-outs, without one that is new in 17."""
    for line in script:
        if line != _TIMEOUT:
            yield line
        if line.startswith(_AFTER_TIMEOUTS):
            return


def _restored(programs: Path, archive: Path, entries: Sequence[str], environ: Mapping[str, str], script: Path) -> Path:
    """Write some entries of a dump as a script; return it."""
    contents = script.with_suffix(".contents")
    contents.write_text("\n".join(entries) + "\n", errors="surrogateescape")
    _run([str(programs / "pg_restore"), *_PORTABLE, "-L", str(contents), "--file", str(script), str(archive)], environ)
    return script


def roles_of_policies(script: bytes) -> bytes:
    """Return statements that make the roles that policies name, without login, where they do not exist.

    `script` has the policies, as pg_restore writes them.
    """
    lists = (found["roles"] for found in _CREATE_POLICY.finditer(script))
    roles = dict.fromkeys(found[0] for one in lists for found in _NAME.finditer(one))
    return b"".join(b"DO %s;\n" % _literal(_MAKE_ROLE % (_literal(_meant(role)), role)) for role in roles)


def _meant(identifier: bytes) -> bytes:
    """Return the name that an identifier means."""
    return identifier[1:-1].replace(b'""', b'"') if identifier.startswith(b'"') else identifier


def _literal(text: bytes) -> bytes:
    """Return a text as a literal of SQL."""
    return b"'" + text.replace(b"'", b"''") + b"'"


def _run(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run a program whose messages go to the user. Raises Failed when it fails."""
    done = subprocess.run(command, env=environ, check=False)
    if done.returncode != 0:
        name = Path(command[0]).name
        raise Failed("DUMP_FAILED", f"{name} ended with exit status {done.returncode}", "Nothing was written.")
