"""Recovery of a fork: the settings of its first start, the proof that it stopped where it should, and why it did not.

Where PostgreSQL stopped is asked twice: of its log, and of the database itself.
"""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ramet.backends.base import Capture
from ramet.backends.local import logs, sql
from ramet.backends.local.capture import capture_of, has_capture
from ramet.backends.local.paths import ServicePaths
from ramet.backends.local.rollforward import TO_THE_END
from ramet.backends.local.rows import row
from ramet.backends.local.wal import segment_at
from ramet.errors import Failed
from ramet.model.fork import shown
from ramet.model.snapshot import lsn_number

_LOG_WITHIN_SECONDS = 2.0
_LOOK_EVERY_SECONDS = 0.005

_TIME = r"(\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d(?::\d\d)?)"
_STOPPED = re.compile(rf"recovery stopping before (?:commit|abort) of (?:prepared )?transaction (\d+), time {_TIME}")
_REDO_START = re.compile(r"redo starts at ([0-9A-F]+/[0-9A-F]+)")
_REDO_DONE = re.compile(r"redo done at ([0-9A-F]+/[0-9A-F]+).*?(?:elapsed: ([\d.]+) s)?$")
_LAST_COMPLETED = re.compile(rf"last completed transaction was at log time {_TIME}")
_TOO_SHORT = re.compile(
    r"recovery ended before configured recovery target was reached|WAL ends before|could not locate .*checkpoint record"
)
_BAD_RECORD = re.compile(
    r"(?:incorrect|invalid|unexpected|record|contrecord|there is no|missing|could not decompress)"
    r".*? (?:at|LSN|address) ([0-9A-F]+/[0-9A-F]+)"
)


def recovery_settings(capture: Capture) -> Mapping[str, str]:
    """Return what the first start of a fork needs beyond its configuration.

    With hot_standby off a fork may be smaller than its parent (forking.md, 13). All WAL is in the fork's pg_wal, so
    the restore command has nothing to restore.
    """
    archive_recovery = {"restore_command": "false", "recovery_target_timeline": "current", "hot_standby": "off"}
    if capture.recover_to is None:
        return archive_recovery if TO_THE_END in capture.facts else {}
    return archive_recovery | {
        "recovery_target_time": capture.recover_to.astimezone(UTC).isoformat(" ", "microseconds"),
        "recovery_target_inclusive": "on",
        "recovery_target_action": "promote",
    }


def check_stop_point(paths: ServicePaths, capture: Capture) -> dict[str, Any]:
    """Prove that a recovered server holds what `capture` wanted, and nothing beyond; return where it stopped.

    Raises Failed when it does not. Must be asked before anything commits on the server.
    """
    with sql.connect(paths) as connection:
        redo_lsn, timeline, last_commit = row(
            connection,
            "SELECT redo_lsn::text, timeline_id, (pg_last_committed_xact()).timestamp FROM pg_control_checkpoint()",
        )
    if capture.recover_to is None:
        return _check_end(capture, redo_lsn, timeline, last_commit) | _replayed(paths)
    return _check_target(paths, capture, timeline, last_commit) | _replayed(paths)


def _check_end(capture: Capture, redo_lsn: str, timeline: int, last_commit: datetime | None) -> dict[str, Any]:
    wanted = (capture.facts["timeline"], capture.facts["end_lsn"])
    if TO_THE_END in capture.facts:
        last = capture.facts["cut"]["last_included"]
        if timeline <= wanted[0] or (last is not None and last["time"] != _shown(last_commit)):
            raise _wrong(f"Its last transaction is of {_shown(last_commit)} on timeline {timeline}; wanted was {last}.")
    elif timeline != wanted[0] or lsn_number(redo_lsn) < lsn_number(wanted[1]):
        raise _wrong(f"It reached {redo_lsn} on timeline {timeline}; wanted was {wanted[1]} on timeline {wanted[0]}.")
    return {"stop_lsn": wanted[1], "timeline": timeline, "last_commit_time": _shown(last_commit)}


def _check_target(paths: ServicePaths, capture: Capture, timeline: int, last_commit: datetime | None) -> dict[str, Any]:
    target = capture.recover_to
    if target is None:
        raise AssertionError("BUG: there is a target")
    stop = _last(_messages_until(paths, _STOPPED), _STOPPED)
    if stop is None:
        raise _wrong("Its log does not say where it stopped.")
    excluded = _moment(stop[2])
    if excluded <= target or (last_commit is not None and last_commit > target):
        raise _wrong(
            f"The last transaction in it is of {_shown(last_commit)}, the first left out of {shown(excluded)};"
            f" wanted was {shown(target)}."
        )
    expected = capture.facts["cut"]["first_excluded"]
    if expected is not None and expected["time"] != shown(excluded):
        raise _wrong(f"It stopped before a transaction of {shown(excluded)}; the WAL has one of {expected['time']}.")
    if timeline <= capture.facts["timeline"]:
        raise _wrong(f"It is still on timeline {timeline}.")
    return {
        "timeline": timeline,
        "last_commit_time": _shown(last_commit),
        "first_excluded_time": shown(excluded),
        "first_excluded_xid": int(stop[1]),
    }


def _replayed(paths: ServicePaths) -> dict[str, Any]:
    """Return how much WAL was replayed according to the log; empty when there was nothing to replay."""
    messages = [entry["message"] for entry in logs.entries(paths)]
    start, done = _last(messages, _REDO_START), _last(messages, _REDO_DONE)
    if start is None or done is None:
        return {"wal_replayed_bytes": 0}
    return {
        "stop_lsn": done[1],
        "wal_replayed_bytes": lsn_number(done[1]) - lsn_number(start[1]),
        "redo_seconds": float(done[2] or 0),
    }


def explained(paths: ServicePaths, failure: Failed) -> Failed:
    """Return a better error for a fork that died in its first recovery because its WAL is damaged; else the same."""
    if not has_capture(paths):
        return failure
    capture = capture_of(paths)
    messages = [entry["message"] for entry in logs.entries(paths)]
    if not any(_TOO_SHORT.search(message) for message in messages):
        return failure
    bad = _last(messages, _BAD_RECORD)
    if bad is None:
        return failure
    segment = segment_at(capture.facts["timeline"], bad[1])
    return Failed(
        "WAL_DAMAGED",
        f"WAL segment {segment.name} is damaged at {bad[1]}: {bad[0]}.",
        _nearest(messages, capture),
    )


def _nearest(messages: list[str], capture: Capture) -> str:
    last = _last(messages, _LAST_COMPLETED)
    if capture.recover_to is None or last is None:
        return "Fork from another snapshot."
    # The moment of the last commit itself cannot be proven without a later one.
    return f"The nearest moment before that can be had: {shown(_moment(last[1]) - timedelta(microseconds=1))}."


def _messages_until(paths: ServicePaths, wanted: re.Pattern[str]) -> list[str]:
    """Return the log's messages, waiting a moment for one: the log collector writes when it gets round to it."""
    deadline = time.monotonic() + _LOG_WITHIN_SECONDS
    while True:
        messages = [entry["message"] for entry in logs.entries(paths)]
        if any(wanted.search(message) for message in messages) or time.monotonic() > deadline:
            return messages
        time.sleep(_LOOK_EVERY_SECONDS)


def _last(messages: list[str], wanted: re.Pattern[str]) -> re.Match[str] | None:
    found = [match for message in messages if (match := wanted.search(message)) is not None]
    return found[-1] if found else None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _shown(moment: datetime | None) -> str | None:
    return None if moment is None else shown(moment)


def _wrong(detail: str) -> Failed:
    return Failed("WRONG_STOP_POINT", "Recovery did not stop where it should have.", detail)
