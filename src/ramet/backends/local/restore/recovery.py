"""Recovery of a fork to the captured state: its settings, and the proof that it stopped there.

The stop point is checked in three ways: in PostgreSQL's log, in the database itself, and in the control file.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ramet.backends.interface.values import Capture, Progress
from ramet.backends.local.host import files
from ramet.backends.local.restore.point_in_time import MOST_PREPARED, RECOVER_TO_LSN
from ramet.backends.local.restore.single_user import SingleUser
from ramet.backends.local.restore.standby_copy import RECOVERED_ON, STANDBY, TO_THE_END
from ramet.backends.local.server.configuration import MAX_PREPARED
from ramet.backends.local.wal.control_file import ControlData
from ramet.backends.local.wal.locate import WAL_DIRECTORY, ended_at
from ramet.backends.local.wal.segment import segment_at
from ramet.errors import Failed
from ramet.model.snapshot import lsn_number
from ramet.model.timestamps import rfc3339

_LAST_COMMIT = "SELECT (pg_last_committed_xact()).timestamp::text AS last_commit"
COUNT_SUBSCRIPTIONS = "SELECT count(*) AS subscriptions FROM pg_subscription;"
_NO_SUBSCRIPTION = re.compile(r'\bsubscriptions = "0"')
_LEAVES = "leaves_timeline"  # in a capture's facts: recovery to its end begins another timeline
_LAST_COMMIT_ANSWER = re.compile(r'\blast_commit = "([^"]+)"')

_TIME = r"(\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d(?::\d\d)?)"
_STOPPED = re.compile(
    r"recovery stopping (?:after WAL location \(LSN\) \"([0-9A-F]+/[0-9A-F]+)\"|after reaching (consistency))"
)
_REDO_START = re.compile(r"redo starts at ([0-9A-F]+/[0-9A-F]+)")
_REDO_DONE = re.compile(r"redo done at ([0-9A-F]+/[0-9A-F]+).*?(?:elapsed: ([\d.]+) s)?$")
_LAST_COMPLETED = re.compile(rf"last completed transaction was at log time {_TIME}")
_TOO_SHORT = re.compile(
    r"recovery ended before configured recovery target was reached|WAL ends before|could not locate .*checkpoint record"
)
# Replay itself takes no locks in single-user mode.
_NO_LOCKS = re.compile(r"FATAL:  out of shared memory")
_BAD_RECORD = re.compile(
    r"(?:incorrect|invalid|unexpected|record|contrecord|there is no|missing|could not decompress)"
    r".*? (?:at|LSN|address) ([0-9A-F]+/[0-9A-F]+)"
)


def recover(place: SingleUser, capture: Capture, timeout_seconds: float) -> Progress:
    """Recover a captured data directory to the state that `capture` names; wait for at most `timeout_seconds`.

    Raises Failed when recovery fails, or stopped at another point.
    """
    found = recover_data(place, capture, timeout_seconds)
    return Progress(None, found) if isinstance(found, str) else Progress(found[1])


def recover_data(
    place: SingleUser, capture: Capture, timeout_seconds: float
) -> tuple[ControlData, dict[str, Any]] | str:
    """Recover a data directory; return its control file and the verified facts, or the progress."""
    settings = recovery_settings(capture)
    leaves_timeline = capture.facts["timeline"] if settings else None
    try:
        query = f"{_LAST_COMMIT}; {COUNT_SUBSCRIPTIONS}"
        found = place.recover(settings, query, timeout_seconds, leaves_timeline=leaves_timeline)
    except Failed as failure:
        raise explained(place.messages(), capture, failure) from failure
    if isinstance(found, str):
        return found
    if STANDBY in capture.facts:
        return found, _check_standby(place, capture, found)
    return found, check_stop_point(place.messages(), capture, found)


def _check_standby(place: SingleUser, capture: Capture, control: ControlData) -> dict[str, Any]:
    """Verify that all WAL of a standby's copy was replayed, and nothing more; return where it stopped."""
    timeline, wanted = control.timeline, capture.facts["end_lsn"]
    reached, last = ended_at(place.data / WAL_DIRECTORY, timeline), _last(place.messages(), _LAST_COMPLETED)
    if timeline <= capture.facts["timeline"] or reached is None or lsn_number(reached) < lsn_number(wanted):
        raise _wrong(f"It reached {reached} on timeline {timeline}; expected {wanted}.")
    included = capture.facts["cut"]["last_included"]
    known = _shown(_time(last[1])) if last is not None else included and included["time"]
    return {"stop_lsn": reached, "timeline": timeline, "last_commit_time": known} | _replayed_bytes(place.messages())


def is_recovered(capture: Capture) -> bool:
    """Tell whether the captured cluster was shut down cleanly at the requested state."""
    return capture.recover_to is None and TO_THE_END not in capture.facts and bool(capture.facts["clean"])


def ends_on_its_timeline(capture: Capture) -> bool:
    """Tell whether recovery of a capture to its end would stay on its timeline."""
    leaves = {TO_THE_END, STANDBY, _LEAVES} & capture.facts.keys()
    return capture.recover_to is None and not is_recovered(capture) and not leaves


def leaving_its_timeline(capture: Capture) -> Capture:
    """Return a capture whose recovery begins another timeline; its data directory has the signal file for that."""
    return replace(capture, facts={**capture.facts, _LEAVES: True})


def has_found_no_subscription(log: Path) -> bool:
    """Tell whether a recovery has said in its log that the data has no subscription."""
    return _NO_SUBSCRIPTION.search(files.read(log, errors="replace")) is not None


def as_captured(capture: Capture) -> Progress:
    """Return the facts of a capture that needs no recovery."""
    facts = capture.facts
    known = {"last_commit_time": facts.get("last_commit_time"), "wal_replayed_bytes": 0}
    return Progress({"stop_lsn": facts["end_lsn"], "timeline": facts["timeline"], **known})


def recovery_settings(capture: Capture) -> Mapping[str, str]:
    """Return the settings for recovery, in addition to the fork's configuration.

    All WAL is in the fork's pg_wal, so the restore command restores nothing.
    """
    timeline = capture.facts.get(RECOVERED_ON, "current")
    archive_recovery = {"restore_command": "false", "recovery_target_timeline": str(timeline)}
    if MOST_PREPARED in capture.facts:
        archive_recovery[MAX_PREPARED] = str(capture.facts[MOST_PREPARED])
    if capture.recover_to is None:
        return archive_recovery if {TO_THE_END, _LEAVES} & capture.facts.keys() else {}
    lsn = _recover_to_lsn(capture)
    target = {"recovery_target": "immediate"} if lsn is None else {"recovery_target_lsn": lsn}
    return archive_recovery | target | {"recovery_target_inclusive": "on", "recovery_target_action": "promote"}


def _recover_to_lsn(capture: Capture) -> str | None:
    """Return the last record to replay, None for the end of the base backup.

    This is never a time: PostgreSQL would replay all records before the first later end of a transaction, including
    those that do not wait for one (DROP DATABASE, sequences, prepared transactions).
    """
    lsn: str | None = capture.facts[RECOVER_TO_LSN]
    return lsn


def check_stop_point(messages: Sequence[str], capture: Capture, control: ControlData) -> dict[str, Any]:
    """Verify that a recovered cluster contains what `capture` requested, and nothing more; return where it stopped.

    `messages` are PostgreSQL's log, `control` is the control file after its clean shutdown. Raises Failed.
    """
    answer = _last(messages, _LAST_COMMIT_ANSWER)
    last_commit = None if answer is None else _time(answer[1])
    if capture.recover_to is None:
        return _check_end(messages, capture, control, last_commit) | _replayed_bytes(messages)
    return _check_target(messages, capture, control.timeline, last_commit) | _replayed_bytes(messages)


def _check_end(
    messages: Sequence[str], capture: Capture, control: ControlData, last_commit: datetime | None
) -> dict[str, Any]:
    redo_lsn, timeline = control.redo_lsn, control.timeline
    wanted, known = (capture.facts["timeline"], capture.facts["end_lsn"]), _shown(last_commit)
    if TO_THE_END in capture.facts:
        last = capture.facts["cut"]["last_included"]
        if last is not None and known is None and _was_replayed(messages, last["lsn"]):
            known = _stored_time(last)
        if timeline <= wanted[0] or (last is not None and known != _stored_time(last)):
            raise _wrong(f"The last transaction is of {known} on timeline {timeline}; expected {last}.")
    elif (timeline > wanted[0]) is not (_LEAVES in capture.facts) or lsn_number(redo_lsn) < lsn_number(wanted[1]):
        raise _wrong(f"It reached {redo_lsn} on timeline {timeline}; expected {wanted[1]} on timeline {wanted[0]}.")
    return {"stop_lsn": wanted[1], "timeline": timeline, "last_commit_time": known}


def _was_replayed(messages: Sequence[str], lsn: str) -> bool:
    """Tell whether recovery replayed a record, by its log: later starts, after a kill, log where they ended too.

    PostgreSQL does not know the last commit any more when it was killed after recovery.
    """
    ends = [done[1] for message in messages if (done := _REDO_DONE.search(message)) is not None]
    return bool(ends) and lsn_number(ends[0]) >= lsn_number(lsn)


def _check_target(
    messages: Sequence[str], capture: Capture, timeline: int, last_commit: datetime | None
) -> dict[str, Any]:
    stop, wanted = _last(messages, _STOPPED), _recover_to_lsn(capture)
    if stop is None:
        raise _wrong("The log does not show where it stopped.")
    reached = None if stop[1] is None else lsn_number(stop[1])
    if reached != (None if wanted is None else lsn_number(wanted)):
        raise _wrong(f"It stopped after {stop[1] or stop[2]}; expected {wanted or 'the end of the base backup'}.")
    included, excluded = (capture.facts["cut"][border] for border in ("last_included", "first_excluded"))
    # PostgreSQL does not know the last commit any more when it was killed after recovery.
    known = _shown(last_commit) or (included and _stored_time(included))
    if included is not None and known != _stored_time(included):
        raise _wrong(f"The last transaction is of {known}; expected {included}.")
    if timeline <= capture.facts["timeline"]:
        raise _wrong(f"It is on timeline {timeline}, which it should have left.")
    return {
        "timeline": timeline,
        "last_commit_time": known,
        "first_excluded_time": excluded["time"],
        "first_excluded_xid": excluded["xid"],
    }


def _stored_time(mark: Mapping[str, Any]) -> str:
    """Return the commit time that PostgreSQL stores of a transaction: of a replicated one, that of its origin."""
    return str(mark.get("origin_time") or mark["time"])


def _replayed_bytes(messages: Sequence[str]) -> dict[str, Any]:
    """Return how much WAL was replayed according to the log."""
    start, done = _last(messages, _REDO_START), _last(messages, _REDO_DONE)
    if start is None or done is None:
        return {"wal_replayed_bytes": 0}
    return {
        "stop_lsn": done[1],
        "wal_replayed_bytes": lsn_number(done[1]) - lsn_number(start[1]),
        "redo_seconds": float(done[2] or 0),
    }


def explained(messages: Sequence[str], capture: Capture, failure: Failed) -> Failed:
    """Return an error that names why recovery failed, if it is known: a damaged WAL segment, or too many locks."""
    if any(_NO_LOCKS.search(message) for message in messages):
        return Failed(
            "RECOVERY_FAILED",
            "The parent's prepared transactions have more locks than a service of this size can have",
            "Fork it with the size of its parent. Restores in place and restore drills recover with the smallest size,"
            " so they need a time at which its prepared transactions had ended.",
        )
    if not any(_TOO_SHORT.search(message) for message in messages):
        return failure
    bad = _last(messages, _BAD_RECORD)
    if bad is None:
        return failure
    segment = segment_at(capture.facts["timeline"], bad[1])
    return Failed(
        "WAL_DAMAGED",
        f"WAL segment {segment.name} is damaged at {bad[1]}: {bad[0]}",
        _nearest(messages, capture),
    )


def _nearest(messages: Sequence[str], capture: Capture) -> str:
    last = _last(messages, _LAST_COMPLETED)
    if capture.recover_to is None or last is None:
        return "Fork from another snapshot."
    # Recovery to the time of the last commit itself cannot be verified without a later one.
    return f"Nearest restorable time: {rfc3339(_time(last[1]) - timedelta(microseconds=1))}."


def _last(messages: Sequence[str], wanted: re.Pattern[str]) -> re.Match[str] | None:
    found = [match for message in messages if (match := wanted.search(message)) is not None]
    return found[-1] if found else None


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _shown(time: datetime | None) -> str | None:
    return None if time is None else rfc3339(time)


def _wrong(detail: str) -> Failed:
    return Failed("WRONG_STOP_POINT", "Recovery did not stop at the recovery target", detail)
