"""Which transactions ended in a range of WAL, and when, read with pg_waldump, which verifies each record's checksum.

The range is read as one stream: a commit record may be longer than a page, and may begin in one segment and end in the
next.

Nothing that a tenant wrote is taken for a record. Of the ends of transactions only PREPARE shows a tenant's text, its
global identifier, which ends before the name of a time zone that is drawn at random for each run of pg_waldump. Of the
records of the resource manager XLOG only restore points show a text, and its 63 bytes are too few for a line that is
looked for.
"""

import re
import secrets
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from ramet.backends.local.wal.segment import record_end, segment_before, shown_lsn
from ramet.errors import Failed
from ramet.machine.programs import complete
from ramet.model.snapshot import lsn_number

_TIMEOUT_SECONDS = 600
_LAST_BYTES = 64 * 1024
_LSN = "[0-9A-F]+/[0-9A-F]+"
# The time at an origin may be in a year that Python does not have: then it is not read.
_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}"
_HEAD = r"^rmgr: Transaction len \(rec/tot\): +\d+/ *(\d+), tx: +(\d+), "
# NUL stands for the name of the zone, and for nothing else: pg_waldump prints strings of C, which contain none.
_END = re.compile(
    rf"{_HEAD}lsn: ({_LSN}), prev {_LSN}, desc: "
    rf"(?:(COMMIT|ABORT)(?:_PREPARED (\d+):)?|(PREPARE) gid [^\0]*:) ({_TIME}) \0"
    rf"(?:.*; origin: node \d+, lsn {_LSN}, at ({_TIME}) \0)?",
    re.MULTILINE,
)
_ANY_END = re.compile(rf"{_HEAD}.*, desc: (?:COMMIT|ABORT|PREPARE)", re.MULTILINE)
# The widths are those of pg_waldump: with fewer spaces the name of a restore point could contain the line.
_SHUTDOWN = re.compile(
    r"^rmgr: XLOG {8}len \(rec/tot\): [ \d]{6}/([ \d]{6}), tx: [ \d]{10}, "
    rf"lsn: ({_LSN}), prev {_LSN}, desc: CHECKPOINT_SHUTDOWN ",
    re.MULTILINE,
)


class TransactionEnd(NamedTuple):
    """The record by which a transaction committed, aborted or was prepared, and the length of that record in bytes.

    `origin_time` is that of a transaction that was replicated: when it was committed where it comes from.
    """

    xid: int
    lsn: str
    time: datetime
    committed: bool
    length: int
    origin_time: datetime | None = None

    @property
    def end_lsn(self) -> str:
        """Return the LSN after the record."""
        return shown_lsn(record_end(self.lsn, self.length))


class Stretch(NamedTuple):
    """The ends of transactions in a range of WAL, in order.

    `fault` is the LSN at which reading stopped early, and why; None when the whole range was read.
    """

    ends: list[TransactionEnd]
    fault: tuple[str, str] | None


def transaction_ends(pg_waldump: str, directory: Path, timeline: int, start_lsn: int, end_lsn: int) -> Stretch:
    """Read the segments of a timeline in `directory` from `start_lsn` to `end_lsn`.

    Returns the records that begin at or after `start_lsn` and end at or before `end_lsn`. All segments of the range
    must exist: pg_waldump waits for seconds for a missing one. WAL that ends earlier is a fault.
    """
    if start_lsn == end_lsn:
        return Stretch([], None)
    argv = [pg_waldump, *ends_arguments(str(directory), timeline, start_lsn, end_lsn)]
    zone = secret_zone()
    try:
        run = complete(
            argv, timeout_seconds=_TIMEOUT_SECONDS, errors="replace", encoding="utf-8", env={"TZ": zone, "LC_ALL": "C"}
        )
    except FileNotFoundError as error:
        raise Failed(
            "PG_WALDUMP_MISSING",
            f"{pg_waldump} is missing; Ramet needs it to find a recovery target in the WAL",
            "Install the complete server package of PostgreSQL.",
        ) from error
    if run.returncode < 0:
        raise RuntimeError(f"{argv} ended by signal {-run.returncode}: {run.stderr[-500:]}")
    return stretch_of(run.stdout, zone, run.stderr if run.returncode else None, start_lsn, end_lsn)


def secret_zone() -> str:
    """Return a value of TZ for one run of pg_waldump: UTC, by a name that was unknown when the WAL was written."""
    return f"<{secrets.token_hex(16)}>0"


def ends_arguments(directory: str, timeline: int, start_lsn: int, end_lsn: int) -> list[str]:
    """Return the arguments with which pg_waldump prints the ends of transactions in a range."""
    where = ["--path", directory, "--timeline", str(timeline), "--rmgr", "Transaction"]
    return [*where, "--start", shown_lsn(start_lsn), "--end", shown_lsn(end_lsn)]


def stretch_of(printed: str, zone: str, errors: str | None, start_lsn: int, end_lsn: int) -> Stretch:
    """Return what pg_waldump printed about a range with `zone` as its TZ.

    `errors` is what it said when it failed, None when it did not.
    """
    ends = [_transaction_end(found) for found in _END.finditer(printed.replace(zone[1:-2], "\0"))]
    if not ends and _ANY_END.search(printed):
        raise RuntimeError(f"pg_waldump did not show times in the zone {zone}: {printed[:500]}")
    return Stretch(ends, None if errors is None else _fault(errors.strip(), start_lsn, end_lsn))


def ends_with_shutdown(pg_waldump: str, directory: Path, timeline: int, end_lsn: str) -> bool:
    """Tell whether the record that ends at an LSN is the checkpoint of a shutdown; False when it cannot be read."""
    run = complete(
        [pg_waldump, *last_arguments(str(directory), timeline, end_lsn)],
        timeout_seconds=_TIMEOUT_SECONDS, errors="replace", encoding="utf-8", env={"LC_ALL": "C"},
    )  # fmt: skip
    return shows_shutdown(run.stdout, end_lsn)


def last_arguments(directory: str, timeline: int, end_lsn: str) -> list[str]:
    """Return the arguments with which pg_waldump prints the last records before an LSN that a server may end with."""
    start = max(lsn_number(end_lsn) - _LAST_BYTES, segment_before(timeline, end_lsn).start)
    where = ["--path", directory, "--timeline", str(timeline), "--rmgr", "XLOG"]
    return [*where, "--start", shown_lsn(start), "--end", end_lsn]


def shows_shutdown(printed: str, end_lsn: str) -> bool:
    """Tell whether pg_waldump printed the checkpoint of a shutdown that ends at an LSN."""
    return any(record_end(found[2], int(found[1])) == lsn_number(end_lsn) for found in _SHUTDOWN.finditer(printed))


def _fault(said: str, start_lsn: int, end_lsn: int) -> tuple[str, str] | None:
    """Return where reading stopped and why; None when it read to the requested end."""
    found = re.search(r"error in WAL record at \S+: (.*)", said)
    if found is None:
        return shown_lsn(start_lsn), said
    places = re.findall(_LSN, found[1]) or re.findall(_LSN, said)
    return (places[-1], found[1]) if lsn_number(places[-1]) < end_lsn else None


def _transaction_end(found: re.Match[str]) -> TransactionEnd:
    length, tx, lsn, kind, prepared_xid, _, time, origin_time = found.groups()
    at = None if origin_time is None else _utc(origin_time)
    return TransactionEnd(int(prepared_xid or tx), lsn, _utc(time), kind == "COMMIT", int(length), at)


def _utc(time: str) -> datetime:
    return datetime.fromisoformat(f"{time}+00:00")
