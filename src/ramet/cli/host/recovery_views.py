"""What `ramet recover` prints: what an archive holds, how far a recovery is, and how it ended."""

import time
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any

from rich.live import Live
from rich.text import Text

from ramet.archive.owner import short_id
from ramet.cli.ui.durations import local_time, shown_duration, shown_mib
from ramet.cli.ui.output import plain_console, print_result, print_rows, say, status_text
from ramet.control.plane import utc_now
from ramet.model.timestamps import rfc3339
from ramet.recovery.contents import Contents, Holding
from ramet.recovery.plan import Plan
from ramet.recovery.session import Progress, describe_writer
from ramet.settings import Settings

_QUIET_SECONDS = 5.0


def print_contents(contents: Contents, output: str) -> None:
    """Print the services in an archive, with the newest time to which each can be restored."""
    print_result(_contents_data(contents), output, lambda: _print_contents_table(contents))


def _contents_data(contents: Contents) -> dict[str, Any]:
    first, owner = contents.catalogues[0], contents.owner
    return {
        "url": contents.url,
        "installation": short_id(first.installation if owner is None else owner.installation),
        "host": first.host if owner is None else owner.host,
        "last_written_at": rfc3339(contents.last_written_at),
        "catalogue_written_at": rfc3339(first.written_at),
        "recovery_key": first.sealed.key_id,
        "projects": [{"id": one.id, "name": one.name} for one in contents.projects],
        "services": [_service_data(each) for each in contents.holdings],
    }


def _service_data(holding: Holding) -> dict[str, Any]:
    entry = holding.entry
    return {
        "service_id": entry.id,
        "name": entry.name,
        "project_id": entry.project_id,
        "project": holding.project,
        "environment": entry.environment,
        "pg_major": entry.pg_major,
        "port": entry.port,
        "paused": entry.paused,
        "oldest_time": None if holding.oldest is None else rfc3339(holding.oldest),
        "newest_time": None if holding.newest is None else rfc3339(holding.newest),
        "size_bytes": holding.size_bytes,
        "archive_bytes": holding.archive_bytes,
        "base_backups": holding.base_backups,
        "read_replica_sets": [each.name for each in entry.replica_sets],
    }


def _print_contents_table(contents: Contents) -> None:
    now = utc_now()
    columns = ("id", "name", "project", "environment", "newest", "age", "size", "in archive")
    print_rows(columns, [_row(each, now) for each in contents.holdings])
    say(describe_writer(contents, now) + ".")
    say("To bring services back: ramet recover --from URL with their names, or --all.", "dim")


def _row(holding: Holding, now: datetime) -> list[str]:
    entry, newest = holding.entry, holding.newest
    known = [entry.id, entry.name, holding.project, entry.environment.value]
    if newest is None:
        return [*known, "no base backup", "-", "-", shown_mib(holding.archive_bytes)]
    age = shown_duration(max(0.0, (now - newest).total_seconds()))
    return [*known, local_time(newest), age, shown_mib(holding.size_bytes), shown_mib(holding.archive_bytes)]


class Reporter:
    """Shows how far a recovery is: on a terminal as moving lines, elsewhere as a line for what has changed."""

    def __init__(self) -> None:
        console = plain_console(stderr=True)
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._shown: dict[str, tuple[str, bool, float]] = {}

    def __enter__(self) -> "Reporter":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, found: Sequence[Progress]) -> None:
        """Show the state of all services."""
        if self._live is not None:
            self._live.update(Text("\n".join(_line(each) for each in found)))
            return
        for each in found:
            self._print_change(each)

    def _print_change(self, progress: Progress) -> None:
        """Print a new step and its first detail at once, and more of them every few seconds."""
        step, has_detail, at = self._shown.get(progress.service.id, ("?", False, 0.0))
        is_due = not has_detail or time.monotonic() - at > _QUIET_SECONDS
        if step != progress.step or (progress.detail and is_due):
            self._shown[progress.service.id] = (progress.step, bool(progress.detail), time.monotonic())
            say(_line(progress))


def _line(progress: Progress) -> str:
    state = progress.status if progress.is_over else progress.step
    return f"{progress.service.name}: {state}{f': {progress.detail}' if progress.detail else ''}"


def print_result_of(
    settings: Settings, url: str, ended: Sequence[Progress], plan: Plan, output: str, *, has_secrets: bool
) -> None:
    """Print how a recovery ended, and what to do next."""
    print_result(_result_data(ended, plan), output, lambda: _print_result_table(ended, plan))
    if not has_secrets:
        say(
            "Without the recovery key this host has a new certificate authority: clients that verify certificates need"
            f" {settings.data_dir / 'secrets' / 'ca.crt'}. People have to sign in to the console again, and a request"
            " that is repeated with its Idempotency-Key creates another service. 'ramet archive key' prints the new"
            " recovery key.",
            "yellow",
        )
    if not ended:
        return
    say(
        f"Start Ramet, so that the services are archived again: RAMET_ARCHIVE_URL={url} ramet up --data"
        f" {settings.data_dir}",
        "green",
    )


def _result_data(ended: Sequence[Progress], plan: Plan) -> dict[str, Any]:
    recovered = [
        {
            "service_id": each.service.id,
            "name": each.service.name,
            "status": each.status,
            "host": each.service.host,
            "port": each.service.port,
            "target_time": None if each.target is None else rfc3339(each.target),
            "downloaded_bytes": each.downloaded_bytes,
            "error": each.detail or None,
            "unread": each.unread or None,
        }
        for each in ended
    ]
    refused = [
        {"service_id": one.entry.id, "name": one.entry.name, "code": one.error.code, "error": str(one.error)}
        for one in plan.refused
    ]
    return {"services": recovered, "refused": refused, "differences": list(plan.differences)}


def _print_result_table(ended: Sequence[Progress], plan: Plan) -> None:
    rows: list[list[str | Text]] = [
        [
            each.service.id,
            each.service.name,
            status_text(each.status),
            str(each.service.port),
            "newest" if each.target is None else local_time(each.target),
            each.detail or each.unread,
        ]
        for each in ended
    ]
    rows += [[one.entry.id, one.entry.name, Text("REFUSED", "red"), "-", "-", str(one.error)] for one in plan.refused]
    print_rows(("id", "name", "status", "port", "recovered to", "reason"), rows)
