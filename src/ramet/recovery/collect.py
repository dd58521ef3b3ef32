"""The catalogue of this installation, from its store and its directory of secrets."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from ramet.model.keys import ApiKey
from ramet.model.project import Project
from ramet.model.replica_set import ReplicaSet
from ramet.recovery.catalogue import RequestEntry, Secrets, ServiceEntry, SessionEntry, entry_of
from ramet.store import idempotency, projects, replica_sets, services, sessions
from ramet.store.database import Store
from ramet.store.keys import list_keys
from ramet.store.rows import values_of

SECRET_FILES = ("ca.crt", "ca.key", "root.key")


@dataclass(frozen=True)
class Content:
    """What a catalogue says: while it is the same, no other version is written."""

    projects: tuple[Project, ...]
    keys: tuple[ApiKey, ...]
    services: tuple[ServiceEntry, ...]
    deleted: tuple[str, ...]
    secrets: Secrets
    deleted_names: dict[str, str] = field(default_factory=dict)


def collect(store: Store, secrets_directory: Path, now: datetime) -> Content:
    """Return what the catalogue should say now."""
    with store.read() as tx:
        known = [one for one in services.claimed_services(tx) if one.ready_at is not None]
        sets = _by_service(replica_sets.live_sets(tx))
        live = {one.id for one in known}
        requests = [row for row in idempotency.list_requests(tx) if row.service_id in live]
        owners, deleted = projects.list_projects(tx), services.deleted_with_archive(tx)
        return Content(
            projects=tuple(owners),
            keys=tuple(replace(key, used_at=None) for owner in owners for key in list_keys(tx, owner.id)),
            services=tuple(entry_of(one, sets.get(one.id, [])) for one in known),
            deleted=tuple(deleted),
            secrets=Secrets(
                files=_secret_files(secrets_directory),
                verifiers={one.id: one.verifier.reveal() for one in known},
                sessions=tuple(SessionEntry(**values_of(row)) for row in sessions.list_sessions(tx, now)),
                requests=tuple(RequestEntry(**values_of(row)) for row in requests),
            ),
            deleted_names=deleted,
        )


def _by_service(sets: list[ReplicaSet]) -> dict[str, list[ReplicaSet]]:
    found = dict[str, list[ReplicaSet]]()
    for each in sets:
        found.setdefault(each.service_id, []).append(each)
    return found


def _secret_files(directory: Path) -> dict[str, bytes]:
    paths = [directory / name for name in SECRET_FILES]
    return {path.name: path.read_bytes() for path in paths if path.exists()}
