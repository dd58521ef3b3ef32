"""Which transactions ended in a WAL segment, and when: read with pg_waldump, which verifies each record's checksum."""

import re
import subprocess
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ramet.errors import Failed

_TIMEOUT_SECONDS = 120
_END = re.compile(
    r"^rmgr: Transaction .*?tx: +(?P<xid>\d+), lsn: (?P<lsn>[0-9A-F]+/[0-9A-F]+), .*?"
    r"desc: (?P<kind>COMMIT|ABORT)(?:_PREPARED)? (?:\d+: )?(?P<time>\d{4,}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}) UTC",
)


@dataclass(frozen=True)
class TransactionEnd:
    """The record by which a transaction committed or aborted."""

    xid: int
    lsn: str
    time: datetime
    committed: bool


def transaction_ends(pg_waldump: str, path: Path) -> list[TransactionEnd]:
    """Return the ends of transactions whose records lie wholly in the segment file at `path`, in the order of WAL.

    Ends where the WAL does: at a switch, at the last record of a live server, or at a damaged one.
    """
    argv = [pg_waldump, "--path", str(path.parent), "--rmgr", "Transaction", path.name]
    try:
        run = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            env={"TZ": "UTC", "LC_ALL": "C"},
            check=False,
        )
    except FileNotFoundError as error:
        raise Failed(
            "PG_WALDUMP_MISSING",
            f"{pg_waldump} is missing, and without it no moment can be found in the WAL",
            "Install the complete server package of PostgreSQL.",
        ) from error
    if run.returncode < 0:
        raise RuntimeError(f"{argv} ended by signal {-run.returncode} on {path}: {run.stderr[-500:]}")
    return [_transaction_end(found) for line in run.stdout.splitlines() if (found := _END.match(line))]


def _transaction_end(found: re.Match[str]) -> TransactionEnd:
    return TransactionEnd(
        xid=int(found["xid"]),
        lsn=found["lsn"],
        time=datetime.fromisoformat(f"{found['time']}+00:00"),
        committed=found["kind"] == "COMMIT",
    )
