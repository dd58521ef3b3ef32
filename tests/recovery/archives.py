"""Archives with a catalogue and base backups, without servers."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ramet.archive.backup_info import BackupInfo
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket
from ramet.archive.wal import WalArchive
from ramet.errors import NotFound
from ramet.recovery.catalogue import ServiceEntry
from ramet.recovery.contents import read_contents
from ramet.recovery.publish import PublishCatalogue
from ramet.recovery.sealed import ensure_key
from tests.worlds import World

SEGMENT = "000000010000000000000003"
TAKEN_AT = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)
_INFO = BackupInfo(
    backup_id="20260115T093000",
    server_name="",
    system_identifier=7329483294832948329,
    pg_version=180001,
    timeline=1,
    begin_time=TAKEN_AT,
    end_time=TAKEN_AT,
    begin_lsn="0/3000028",
    end_lsn="0/3000120",
    begin_segment=SEGMENT,
    end_segment=SEGMENT,
    size_bytes=12_345,
    label="",
)


def archive_base(bucket: Bucket, service_id: str, directory: Path) -> None:
    """Put a small base backup, and a WAL segment, into the archive of a service."""
    tree = directory / service_id
    tree.mkdir()
    (tree / "PG_VERSION").write_text("18\n")
    BaseBackups(bucket, service_id).upload(replace(_INFO, server_name=service_id), tree)
    segment = directory / SEGMENT
    segment.write_bytes(service_id.encode() * 100)
    WalArchive(bucket, service_id).upload(segment)


def publish(world: World, bucket: Bucket, directory: Path, installation: str = "1" * 32) -> PublishCatalogue:
    """Write the catalogue of a world; its secrets are below a directory, and its recovery key is in `kept` there."""
    secrets = directory / "secrets"
    secrets.mkdir(exist_ok=True)
    for name in ("ca.crt", "ca.key", "root.key"):
        (secrets / name).write_bytes(f"{name} of {installation[0]}".encode())
    duty = PublishCatalogue(world.store, bucket, installation, secrets, ensure_key(directory / "kept"))
    duty.publish()
    return duty


def created(world: World, names: Iterable[str]) -> dict[str, str]:
    """Create services, and return their ids by their names."""
    return {name: world.create(name).id for name in names}


def entries(bucket: Bucket) -> list[ServiceEntry]:
    """Return what an archive says of its services; nothing while it has no catalogue."""
    try:
        return [each.entry for each in read_contents(bucket).holdings]
    except NotFound:
        return []
