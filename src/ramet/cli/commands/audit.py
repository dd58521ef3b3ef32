"""`ramet audit`: who changed what, and whether the record of it is complete."""

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.text import Text

from ramet.acting import Act, host_user
from ramet.api.schemas.audit import AuditEntry
from ramet.audit.anchor import Anchor
from ramet.audit.recorder import AuditRecorder
from ramet.audit.verbs import filter_of
from ramet.audit.verification import verify
from ramet.cli.host.data_dir import existing_data_dir
from ramet.cli.ui.durations import local_time
from ramet.cli.ui.options import credentials_option, data_option, open_client, output_option, with_client
from ramet.cli.ui.output import print_pairs, print_result, print_rows, say
from ramet.client import Client
from ramet.configured import anchors_of, open_store, root_key
from ramet.errors import Failed
from ramet.model.audit import chain_key
from ramet.settings import Settings
from ramet.store import audit
from ramet.store.database import Store

_COLUMNS = ("at", "by", "from", "verb", "subject", "outcome", "fields")
_COLOURS = {"accepted": "green", "refused": "red", "failed": "red"}
_FILTERS = (
    ("actor", "Public key or name of a key, user on the host, or kind of actor."),
    ("verb", "The verb, such as forkService."),
    ("subject", "Id of a service, snapshot or read replica set."),
    ("outcome", "accepted, refused, failed, unchanged or started."),
    ("request-id", "Id of a request."),
    ("since", "RFC 3339: entries from this time on."),
    ("until", "RFC 3339: entries before this time."),
)


def _filters(command: Any) -> Any:
    for name, meaning in reversed(_FILTERS):
        command = click.option(f"--{name}", help=meaning)(command)
    return command


@click.group("audit")
def audit_group() -> None:
    """Show who changed what, and verify that the record of it is complete."""


@audit_group.command("list")
@click.option("-n", "--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Most entries.")
@_filters
@output_option
@with_client
def list_entries(client: Client, limit: int, output: str, **filters: str | None) -> None:
    """List the audit of the project, newest first.

    \b
    Examples:
      ramet audit list
      ramet audit list --actor ci --outcome refused
      ramet audit list --subject d1k5vk7hf2 -o json
    """
    found = client.list_audit(limit=str(limit), **_given(filters)).entries
    print_result(found, output, lambda: print_rows(_COLUMNS, [_row(entry) for entry in found]))


@audit_group.command("export")
@click.option("--host", is_flag=True, help="Export all projects and the commands on the host, from the data directory.")
@_filters
@credentials_option
@data_option
def export_entries(host: bool, credentials_file: Path | None, data_dir: Path | None, **filters: str | None) -> None:
    """Write the audit to standard output, one JSON object a line. The project's comes newest first.

    With --host the whole audit comes, oldest first, as it is chained.

    \b
    Examples:
      ramet audit export --since 2026-01-01T00:00:00Z > audit.jsonl
      ramet audit export --host --data /srv/ramet > audit.jsonl
    """
    if host:
        with _opened(data_dir) as (_, store), store.read(at_one_time=True) as tx:
            for entry in audit.walk(tx, filter_of(**_given(filters))):
                _write(entry)
        return
    with open_client(credentials_file) as client:
        for shown in _all_of(client, **_given(filters)):
            _write(shown)


@audit_group.command("verify")
@click.option(
    "--expect", metavar="NUMBER:LINK", help="An entry that the audit had: as an earlier verification printed it."
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="After a restore of an older store: note in the audit that newer entries are lost, and go on from here.",
)
@output_option
@data_option
def verify_chain(expect: str | None, accept_loss: bool, output: str, data_dir: Path | None) -> None:
    """Verify on the host that no entry of the audit was changed or removed. Exit status 1 says that one was.

    It prints the number and the link of the newest entry. Keep them elsewhere: --expect proves later that this entry,
    and all before it, are still there.

    \b
    Examples:
      ramet audit verify
      ramet audit verify --expect 4711:9f2c…
    """
    with _opened(data_dir) as (settings, store):
        anchors = anchors_of(settings)
        if accept_loss:
            _accept_loss(store, AuditRecorder(chain_key(root_key(settings))))
            anchors.reset()
        with store.read(at_one_time=True, settled=True) as tx:  # old entries may be removed while it reads
            found = verify(audit.walk(tx), chain_key(root_key(settings)), [*anchors.read(), *_expected(expect)])
    shown = msgspec.to_builtins(found)
    pairs = [("entries", str(found.entries)), ("newest", f"{found.last}:{found.link}")]
    print_result(shown, output, lambda: print_pairs(pairs))
    if found.problems:
        raise Failed("AUDIT_ALTERED", "The audit was altered", " ".join(found.problems))
    if found.anchors or accept_loss:
        say("No entry was changed or removed.", "green")
        return
    say(
        "No entry was changed, and none before the newest one was removed. Whether newer ones were removed is not "
        f"known: {anchors.path} has no entry to compare with. Give --expect what was printed as newest earlier.",
        "yellow",
    )


def _all_of(client: Client, **query: str) -> Iterator[AuditEntry]:
    page = client.list_audit(limit="500", **query)
    yield from page.entries
    while page.last_cursor is not None:
        page = client.list_audit(limit="500", **query, cursor=page.last_cursor)
        yield from page.entries


def _accept_loss(store: Store, recorder: AuditRecorder) -> None:
    act = Act(host_user(), "host", verb="ramet audit verify --accept-loss")
    with store.write() as tx:
        recorder.append_note(tx, act)


def _expected(text: str | None) -> list[Anchor]:
    if text is None:
        return []
    number, _, link = text.partition(":")
    if not (number.isascii() and number.isdigit() and len(number) < 19 and link):
        raise click.BadParameter("it must be a number, a colon and a link", param_hint="--expect")
    return [Anchor(int(number), link)]


@contextmanager
def _opened(data_dir: Path | None) -> Iterator[tuple[Settings, Store]]:
    settings = existing_data_dir(data_dir)
    with closing(open_store(settings, migrates=False)) as store:
        yield settings, store


def _given(filters: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value is not None}


def _write(entry: object) -> None:
    sys.stdout.write(json.dumps(msgspec.to_builtins(entry), ensure_ascii=False) + "\n")


def _row(entry: AuditEntry) -> list[str | Text]:
    by = entry.actor.name or entry.actor.id or entry.actor.kind
    outcome = entry.outcome if entry.code is None else f"{entry.outcome}: {entry.code}"
    return [
        local_time(entry.at),
        by if entry.actor.kind == "key" else f"{entry.actor.kind}: {by}",
        entry.address or entry.via,
        entry.verb,
        entry.subject or "",
        Text(outcome, style=_COLOURS.get(entry.outcome, "yellow")),
        " ".join(f"{name}={_short(value)}" for name, value in (entry.fields or {}).items()),
    ]


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
