"""`ramet service import`: a service with the contents of a database elsewhere, its dry run, and its report."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

import click

from ramet.cli.commands.new_services import TYPE, NewService, new_service_options, version_option
from ramet.cli.ui.asking import answered
from ramet.cli.ui.durations import shown_duration, shown_mib
from ramet.cli.ui.options import FILE, with_client
from ramet.cli.ui.output import print_pairs, print_result
from ramet.cli.user_files.source_passwords import find_source_password
from ramet.client import Client
from ramet.errors import Error, Invalid
from ramet.model.secret import Secret
from ramet.model.service_type import ServiceType

if TYPE_CHECKING:
    from rich.text import Text

    from ramet.api.schemas.imports import ImportFinding, ImportReport

_PROGRESS_SECONDS = 1.0
# What of a URL can be shown: it has no part that could be a password.
_WITHOUT_PASSWORD = re.compile(r"\w*://(?:[^:@]*@|\[)[^@]*")
_STYLES = {"REFUSED": "red", "CHANGED": "yellow", "NOTED": ""}


@dataclass(frozen=True)
class Source:
    """The database to import, as the user names it, and the major version that its copy is to have."""

    url: str
    password_file: Path | None
    no_owner: bool
    pg_version: int | None

    def fields(self) -> dict[str, Any]:
        """Return the fields of the request. Raises Invalid, or asks for the password."""
        chosen = {"keep_owners": not self.no_owner, "pg_major": self.pg_version}
        return {**source_fields(self.url, self.password_file), **chosen}


def source_fields(named: str, password_file: Path | None) -> dict[str, Any]:
    """Return the fields of a request that name a source. Raises Invalid, or asks for the password."""
    url, certificate = _without_file(named)
    if urlsplit(url).password is not None:
        raise Invalid(
            "PASSWORD_IN_URL",
            "The URL of --from contains a password, which other users of this host can see",
            "Leave it out, and give it by --password-file, PGPASSWORD, ~/.pgpass or when asked.",
        )
    found = find_source_password(url, password_file)
    with answered("use --password-file, PGPASSWORD or ~/.pgpass."):
        password = found or Secret(click.prompt("Password of the source", hide_input=True, err=True))
    return {"source_url": url, "source_password": password, "root_certificate": certificate}


@dataclass
class Progress:
    """How far an import is, asked for once a second at most."""

    client: Client
    service_id: str
    text: str = ""
    _due_at: float = field(default=0.0)

    def __call__(self) -> str:
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + _PROGRESS_SECONDS
            try:
                found = self.client.list_operations(service_id=self.service_id).operations
            except Error:
                return self.text  # the wait itself says what is wrong
            self.text = next((f"{one.step}, {one.progress}" for one in found if one.progress), "")
        return self.text


source_password_option = click.option(
    "--password-file",
    type=FILE,
    help="File whose first line is the password of the source.  [default: PGPASSWORD, ~/.pgpass, or a prompt]",
)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that an import has besides --from."""
    for option in (
        click.option(
            "--no-owner", is_flag=True, help="Give all objects to tsdbadmin, and take over no role and no privilege."
        ),
        source_password_option,
        click.option("--dry-run", is_flag=True, help="Examine the source and show the report, and create nothing."),
    ):
        command = option(command)
    return command


@click.command("import")
@click.argument("name")
@click.option(
    "--from", "url", required=True, metavar="URL", help="The database, as postgresql://user@host:port/database."
)
@source_options
@click.option("--type", "service_type", type=TYPE, default="POSTGRES", show_default=True, help="Type of the service.")
@version_option("one that suits the source")
@new_service_options("shared", both=True)
@with_client
def import_service(
    client: Client,
    name: str,
    url: str,
    dry_run: bool,
    password_file: Path | None,
    no_owner: bool,
    service_type: ServiceType,
    pg_version: int | None,
    new: NewService,
) -> None:
    """Create a service with the schema and the data of a database elsewhere.

    The source is examined first: a report says what will be different, and an import that cannot succeed is refused
    before anything is made. The connection has TLS unless the URL says sslmode=disable; sslmode=verify-full with
    sslrootcert=FILE verifies the server.

    \b
    Examples:
      ramet service import shop --from postgresql://postgres@db.example:5432/shop --dry-run
      ramet service import shop --from postgresql://postgres@db.example:5432/shop --environment PROD
      ramet service import shop --from postgresql://postgres@db.example:5432/shop --pg-version 18
      PGPASSWORD=… ramet service import shop --from "postgresql://app@10.0.0.7/shop?sslmode=disable" --no-owner
    """
    run_import(client, name, service_type, Source(url, password_file, no_owner, pg_version), new, dry_run=dry_run)


def run_import(
    client: Client, name: str, service_type: ServiceType, source: Source, new: NewService, *, dry_run: bool
) -> None:
    """Request an import, or its report, and follow it to its end."""
    fields = source.fields()
    if dry_run:
        report = client.plan_import(name, service_type=service_type, **fields)
        print_result(report, new.output, lambda: print_pairs(import_report_pairs(report)))
        return
    if new.returns_existing(client, name):
        return
    accepted = client.import_service(name, service_type=service_type, **fields, **new.fields)
    new.follow(client, accepted, doing="Importing", detail=Progress(client, accepted.service_id))
    if new.output == "table" and new.waiting.seconds is not None:
        print_pairs(import_report_pairs(client.import_report(accepted.service_id)))


def import_report_pairs(report: ImportReport) -> list[tuple[str, str | Text]]:
    """Return the report of an import for a table."""
    from rich.text import Text  # only tables need it

    pairs: list[tuple[str, str | Text]] = [
        ("source", f"{report.source}, PostgreSQL {report.version}"),
        ("size", f"{shown_mib(report.size_bytes)} in {report.tables} tables, {report.large_objects} large objects"),
    ]
    pairs += finding_pairs(report.findings)
    pairs += [("not taken", problem) for problem in report.problems or ()]
    if report.fetch_seconds is not None:
        fetched = f"{shown_mib(report.received_bytes or 0)} in {shown_duration(report.fetch_seconds)}"
        pairs.append(("fetched", fetched))
    if report.load_seconds is not None:
        pairs.append(("loaded", f"{report.loaded_tables} tables in {shown_duration(report.load_seconds)}"))
    if report.error is not None:
        pairs.append(("failed", Text(report.error, style="red")))
    return pairs


def finding_pairs(findings: Sequence[ImportFinding]) -> list[tuple[str, str | Text]]:
    """Return the findings of a report for a table."""
    from rich.text import Text

    pairs: list[tuple[str, str | Text]] = []
    for one in findings:
        remedy = f" {one.remedy}" if one.remedy else ""
        pairs.append((one.subject, Text(f"{one.effect}: {one.message}.{remedy}", style=_STYLES[one.effect])))
    return pairs


def _without_file(url: str) -> tuple[str, str | None]:
    """Return a URL without sslrootcert, and the certificates in the file that it names."""
    parts = _parts(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    file = query.pop("sslrootcert", None)
    if file is None:
        return url, None
    try:
        certificate = Path(file).read_text()
    except OSError as error:
        raise Invalid("NO_ROOT_CERTIFICATE", f"sslrootcert {file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Invalid(
            "NO_ROOT_CERTIFICATE",
            f"sslrootcert {file} is no certificate in PEM",
            "Convert it: openssl x509 -inform DER -in FILE -out FILE.pem.",
        ) from error
    return urlunsplit(parts._replace(query=urlencode(query))), certificate


def _parts(url: str) -> SplitResult:
    """Return the parts of a URL, whose port is a number. Raises Invalid, with the URL unless it may have a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        address = url.partition("?")[0]
        got = f"got {address[:200]!r}" if _WITHOUT_PASSWORD.fullmatch(address) else "not shown: it may have a password"
        raise Invalid(
            "INVALID_SOURCE",
            f"--from is not a usable URL: its host or its port cannot be read ({got})",
            "It looks like postgresql://user@host:5432/database?sslmode=require; an IPv6 address is in brackets.",
        ) from error
    return parts
