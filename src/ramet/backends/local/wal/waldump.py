"""Which transactions ended in a range of WAL, and when, read with pg_waldump, which verifies each record's checksum.

The range is read as one stream: a commit record may be longer than a page, and may begin in one segment and end in the
next.
"""

import re
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
_TIME = r"\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}"
# The global identifier in a PREPARE record is chosen by the tenant: the record's time is the last one on the line.
_END = re.compile(
    rf"^rmgr: Transaction len \(rec/tot\): +\d+/ *(\d+), tx: +(\d+), lsn: ({_LSN}), prev {_LSN}, desc: "
    rf"(?:(COMMIT|ABORT)(?:_PREPARED (\d+):)?|(PREPARE) gid .*:) ({_TIME}) UTC"
    rf"(?:.*; origin: node \d+, lsn {_LSN}, at ({_TIME}) UTC)?",
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
    try:
        run = complete(
            argv, timeout_seconds=_TIMEOUT_SECONDS, errors="replace", encoding="utf-8", env={"TZ": "UTC", "LC_ALL": "C"}
        )
    except FileNotFoundError as error:
        raise Failed(
            "PG_WALDUMP_MISSING",
            f"{pg_waldump} is missing; Ramet needs it to find a recovery target in the WAL",
            "Install the complete server package of PostgreSQL.",
        ) from error
    if run.returncode < 0:
        raise RuntimeError(f"{argv} ended by signal {-run.returncode}: {run.stderr[-500:]}")
    return stretch_of(run.stdout, run.stderr if run.returncode else None, start_lsn, end_lsn)


def ends_arguments(directory: str, timeline: int, start_lsn: int, end_lsn: int) -> list[str]:
    """Return the arguments with which pg_waldump prints the ends of transactions in a range, in UTC if TZ says so."""
    where = ["--path", directory, "--timeline", str(timeline), "--rmgr", "Transaction"]
    return [*where, "--start", shown_lsn(start_lsn), "--end", shown_lsn(end_lsn)]


def stretch_of(printed: str, errors: str | None, start_lsn: int, end_lsn: int) -> Stretch:
    """Return what pg_waldump printed about a range; `errors` is what it said when it failed, None when it did not."""
    ends = [_transaction_end(found) for found in _END.finditer(printed)]
    return Stretch(ends, None if errors is None else _fault(errors.strip(), start_lsn, end_lsn))


def last_record(pg_waldump: str, directory: Path, timeline: int, end_lsn: str) -> str:
    """Return the description of the last record before an LSN, which is the end of one; "" when it cannot be read."""
    run = complete(
        [pg_waldump, *last_arguments(str(directory), timeline, end_lsn)],
        timeout_seconds=_TIMEOUT_SECONDS, errors="replace", encoding="utf-8", env={"TZ": "UTC", "LC_ALL": "C"},
    )  # fmt: skip
    return last_description(run.stdout)


def last_arguments(directory: str, timeline: int, end_lsn: str) -> list[str]:
    """Return the arguments with which pg_waldump prints the last records before an LSN."""
    start = max(lsn_number(end_lsn) - _LAST_BYTES, segment_before(timeline, end_lsn).start)
    return ["--path", directory, "--timeline", str(timeline), "--start", shown_lsn(start), "--end", end_lsn]


def last_description(printed: str) -> str:
    """Return the description of the last record that pg_waldump printed; "" when there is none."""
    lines = [line for line in printed.splitlines() if ", desc: " in line]
    return lines[-1].partition(", desc: ")[2] if lines else ""


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
