"""The control file of a data directory, read with pg_controldata, whether or not a server runs there."""

import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import GONE, unseen
from ramet.backends.local.wal.segment import Segment, record_end, segment_named, shown_lsn
from ramet.errors import Failed
from ramet.machine.installation import Installation
from ramet.machine.programs import complete

_CLEAN = "shut down"
_CLEAN_STANDBY = "shut down in recovery"
_STANDBY_SETTINGS = {
    "max_connections": "max_connections",
    "max_worker_processes": "max_worker_processes",
    "max_wal_senders": "max_wal_senders",
    "max_prepared_transactions": "max_prepared_xacts",
    "max_locks_per_transaction": "max_locks_per_xact",
}
# Of a checkpoint: SizeOfXLogRecord, SizeOfXLogRecordDataHeaderShort and sizeof(CheckPoint) of PostgreSQL 15 to 18.
_CHECKPOINT_BYTES = 24 + 2 + 88
# pg_control.h of PostgreSQL 15 to 18: max_prepared_xacts, three other fields, and a constant that confirms the layout.
_PREPARED, _PREPARED_AT, _LAYOUT = struct.Struct("=i12xd"), 192, 1234567.0
_TIME = "%a %b %d %H:%M:%S %Y"


@dataclass(frozen=True)
class ControlData:
    """The last checkpoint, and the state of the cluster. `next_xid` includes the epoch.

    `checkpoint_time` is the time of the server's clock, truncated to seconds.
    """

    system_identifier: int
    state: str
    checkpoint_lsn: str
    redo_lsn: str
    redo_segment: Segment
    timeline: int
    next_xid: int
    checkpoint_time: datetime

    @property
    def end_lsn(self) -> str:
        """Return the LSN behind the last checkpoint, where the next record of a server begins that was shut down."""
        return shown_lsn(record_end(self.checkpoint_lsn, _CHECKPOINT_BYTES))

    @property
    def is_clean(self) -> bool:
        """Tell whether the server was shut down cleanly, so that it starts without recovery."""
        return self.state == _CLEAN

    @property
    def is_clean_standby(self) -> bool:
        """Tell whether the server was shut down cleanly in recovery: all that it has replayed is in its files."""
        return self.state == _CLEAN_STANDBY


def read_control_data(installation: Installation, data: Path) -> ControlData:
    """Read the control file of `data`. Raises Failed when it is damaged, Unseen when pg_controldata was killed."""
    return _control_data(_fields(installation, data))


def find_control_data(installation: Installation, data: Path) -> ControlData | None:
    """Read the control file of `data`; None when there is none that can be read. Raises Unseen as above."""
    try:
        return read_control_data(installation, data)
    except Failed:
        return None


def read_standby_settings(installation: Installation, data: Path) -> dict[str, int]:
    """Return the settings that a standby must not have lower than its source (PostgreSQL 18 docs, 26.4.3).

    They are those of the source as far as its WAL was replayed.
    """
    fields = _fields(installation, data)
    return {name: int(fields[f"{shown} setting"]) for name, shown in _STANDBY_SETTINGS.items()}


def read_fixed_properties(installation: Installation, data: Path) -> tuple[bool, int]:
    """Return what initdb decides for good: whether the data has checksums, and the bytes of a WAL segment."""
    fields = _fields(installation, data)
    return int(fields["Data page checksum version"]) != 0, int(fields["Bytes per WAL segment"])


def read_max_prepared_transactions(data: Path) -> int:
    """Return the max_prepared_transactions that a data directory was last used with; 0 where that is not known.

    It reads the file itself: each start of a server asks for it.
    """
    try:
        content = files.read_bytes(data / "global" / "pg_control")
    except GONE:
        return 0
    if len(content) < _PREPARED_AT + _PREPARED.size:
        return 0
    most, layout = _PREPARED.unpack_from(content, _PREPARED_AT)
    return int(most) if layout == _LAYOUT else 0


def read_standby_end(installation: Installation, data: Path) -> tuple[str, int]:
    """Return up to which LSN, on which timeline, a stopped standby has replayed.

    Of a server that was promoted, until its first checkpoint, that is where recovery ended, on its new timeline; later
    the timeline is 0.
    """
    fields = _fields(installation, data)
    return fields["Minimum recovery ending location"], int(fields["Min recovery ending loc's timeline"])


def _fields(installation: Installation, data: Path) -> dict[str, str]:
    run = complete([installation.program("pg_controldata"), "--pgdata", str(data)], env={"LC_ALL": "C", "TZ": "UTC"})
    if run.returncode < 0:
        raise unseen(f"the control file in {data}", f"signal {-run.returncode} ended pg_controldata")
    fields = _fields_of(run.stdout)
    if run.returncode != 0 or "WARNING" in run.stdout:
        raise Failed(
            "CONTROL_FILE_DAMAGED",
            f"The control file in {data} cannot be read",
            f"pg_controldata failed with exit status {run.returncode}: {(run.stderr or run.stdout)[-500:].strip()}",
        )
    return fields


def _fields_of(printed: str) -> dict[str, str]:
    fields = (line.partition(":") for line in printed.splitlines())
    return {name: value.strip() for name, _, value in fields}


def parsed_control_data(printed: str) -> ControlData:
    """Return what pg_controldata printed. Raises Failed when the control file is damaged."""
    fields = _fields_of(printed)
    if "WARNING" in printed or not fields:
        raise Failed("CONTROL_FILE_DAMAGED", "The control file cannot be read", printed[-500:].strip())
    return _control_data(fields)


def _control_data(fields: dict[str, str]) -> ControlData:
    segment = segment_named(fields["Latest checkpoint's REDO WAL file"])
    if segment is None:
        raise AssertionError("BUG: pg_controldata shows an invalid WAL file name")
    epoch, xid = fields["Latest checkpoint's NextXID"].split(":")
    return ControlData(
        system_identifier=int(fields["Database system identifier"]),
        state=fields["Database cluster state"],
        checkpoint_lsn=fields["Latest checkpoint location"],
        redo_lsn=fields["Latest checkpoint's REDO location"],
        redo_segment=segment,
        timeline=int(fields["Latest checkpoint's TimeLineID"]),
        next_xid=(int(epoch) << 32) | int(xid),
        checkpoint_time=datetime.strptime(fields["Time of latest checkpoint"], _TIME).replace(tzinfo=UTC),
    )
