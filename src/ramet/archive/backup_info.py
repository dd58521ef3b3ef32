"""Barman's `backup.info`: lines of `name=value` that describe a base backup."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from ramet.archive.layout import SEGMENT_BYTES
from ramet.model.snapshot import is_lsn

DONE = "DONE"
_SEGMENT = re.compile(r"[0-9A-F]{24}")


@dataclass(frozen=True)
class BackupInfo:
    """What a base backup holds. LSNs are in PostgreSQL's notation, times are aware."""

    backup_id: str
    server_name: str
    system_identifier: int
    pg_version: int
    timeline: int
    begin_time: datetime
    end_time: datetime
    begin_lsn: str
    end_lsn: str
    begin_segment: str
    end_segment: str
    size_bytes: int
    label: str
    status: str = DONE

    def dump(self) -> bytes:
        """Return the file's content."""
        fields = {
            "backup_label": repr(self.label) if self.label else None,
            "begin_offset": _offset(self.begin_lsn),
            "begin_time": self.begin_time.isoformat(sep=" "),
            "begin_wal": self.begin_segment,
            "begin_xlog": self.begin_lsn,
            "compression": "gzip",
            "config_file": None,
            "copy_stats": None,
            "end_offset": _offset(self.end_lsn),
            "end_time": self.end_time.isoformat(sep=" "),
            "end_wal": self.end_segment,
            "end_xlog": self.end_lsn,
            "error": None,
            "mode": "concurrent" if self.label else "exclusive",
            "pgdata": None,
            "server_name": self.server_name,
            "size": self.size_bytes,
            "status": self.status,
            "systemid": self.system_identifier,
            "tablespaces": None,
            "timeline": self.timeline,
            "version": self.pg_version,
            "xlog_segment_size": SEGMENT_BYTES,
        }
        return "".join(f"{name}={value}\n" for name, value in fields.items()).encode()


def parse_backup_info(backup_id: str, content: bytes) -> BackupInfo | None:
    """Return what a file says; None while the backup is under way, or failed.

    Barman writes the file also before a backup, and its cloud tools know the size of the cluster only. Raises
    ValueError, with the field, when it cannot be used.
    """
    fields = dict(line.split("=", 1) for line in content.decode().splitlines() if "=" in line)
    if fields.get("status", DONE) != DONE:
        return None
    try:
        label = fields.get("backup_label", "None")
        return BackupInfo(
            backup_id=backup_id,
            server_name=fields["server_name"],
            system_identifier=int(fields["systemid"]),
            pg_version=int(fields["version"]),
            timeline=int(fields["timeline"]),
            begin_time=datetime.fromisoformat(fields["begin_time"]),
            end_time=datetime.fromisoformat(fields["end_time"]),
            begin_lsn=_lsn(fields, "begin_xlog"),
            end_lsn=_lsn(fields, "end_xlog"),
            begin_segment=_segment(fields, "begin_wal"),
            end_segment=_segment(fields, "end_wal"),
            size_bytes=int(fields["size"] if fields["size"] != "None" else fields["cluster_size"]),
            label="" if label == "None" else ast.literal_eval(label),
            status=fields["status"],
        )
    except KeyError as error:
        raise ValueError(f"backup.info of base backup {backup_id} lacks {error.args[0]}") from error
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"backup.info of base backup {backup_id} has no valid backup_label") from error


def _lsn(fields: Mapping[str, str], field: str) -> str:
    if not is_lsn(fields[field]):
        raise ValueError(f"{field} is no LSN (got {fields[field][:40]!r})")
    return fields[field]


def _segment(fields: Mapping[str, str], field: str) -> str:
    if _SEGMENT.fullmatch(fields[field]) is None:
        raise ValueError(f"{field} is no name of a WAL segment (got {fields[field][:40]!r})")
    return fields[field]


def _offset(lsn: str) -> int:
    return int(lsn.partition("/")[2], 16) % SEGMENT_BYTES
