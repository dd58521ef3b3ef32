"""What a new machine must know to bring services back: projects, keys, services, and sealed the secrets.

It is stored as JSON beside the archive, and read by later releases: a field that they add needs a default, and one that
goes from here stays in what earlier releases wrote, unread.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ramet.model.archive import is_archived
from ramet.model.environment import Environment
from ramet.model.gaps import Gap
from ramet.model.keys import ApiKey
from ramet.model.life_span import LifeSpan
from ramet.model.passwords import Secret
from ramet.model.project import Project
from ramet.model.replica_set import Node, ReplicaSet
from ramet.model.service import Origin, Service
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.model.upstream import Upstream

# The fields that are the same in the store's values.
_OF_SET = "id name environment host port pooler_port created_at"
_OF_SERVICE = f"""
    {_OF_SET} project_id region_code service_type pg_major settings archive_gaps archived_as protected labels upstream
    sleep_after_seconds server_port made_by
"""


class ReplicaSetEntry(Struct, frozen=True, kw_only=True):
    """A read replica set: enough to make it again."""

    id: str
    name: str
    environment: Environment
    cpu_millis: int
    memory_gbs: int
    nodes: tuple[tuple[str, int], ...]
    host: str
    port: int
    pooler_port: int | None
    created_at: datetime


class ServiceEntry(Struct, frozen=True, kw_only=True):
    """A service. Its roles and their passwords are in its base backups. `archived`: it has base backups.

    They are in the archive under the name `archived_as`, None for the id. `upstream` is the source that it follows.
    With `sleep_after_seconds` its server has a port of its own, `server_port`.
    """

    id: str
    project_id: str
    name: str
    region_code: str
    service_type: ServiceType
    environment: Environment
    cpu_millis: int | None
    memory_gbs: int | None
    host: str
    port: int
    pooler_port: int | None
    pg_major: int
    created_at: datetime
    paused: bool
    archived: bool
    settings: dict[str, Any]
    origin: Origin | None = None
    replica_sets: tuple[ReplicaSetEntry, ...] = ()
    archive_gaps: tuple[Gap, ...] = ()
    archived_as: str | None = None
    protected: bool = False
    labels: dict[str, str] = {}
    life_span: LifeSpan | None = None
    upstream: Upstream | None = None
    sleep_after_seconds: int | None = None
    server_port: int | None = None
    made_by: str | None = None

    @property
    def archive_name(self) -> str:
        """The name under which the archive has it."""
        return self.archived_as or self.id


class SessionEntry(Struct, frozen=True):
    """Somebody who is signed in to the console."""

    digest: str
    public_key: str
    expires_at: datetime
    secret_digest: str | None = None


class RequestEntry(Struct, frozen=True):
    """A request that was accepted with an Idempotency-Key."""

    project_id: str
    key_digest: str
    body_digest: str
    service_id: str
    created_at: datetime


class Secrets(Struct, frozen=True, kw_only=True):
    """What only who has the recovery key may read.

    `files` are those of the directory `secrets`: the certificate authority and the root key. `verifiers` are those of
    the initial passwords, by service.
    """

    files: dict[str, bytes] = {}
    verifiers: dict[str, str] = {}
    sessions: tuple[SessionEntry, ...] = ()
    requests: tuple[RequestEntry, ...] = ()

    def __repr__(self) -> str:
        return "Secrets(***)"


class Sealed(Struct, frozen=True, kw_only=True):
    """Encrypted secrets. `key_id` tells which recovery key opens them."""

    key_id: str
    nonce: bytes
    content: bytes


class Catalogue(Struct, frozen=True, kw_only=True):
    """What one installation had at a time.

    `deleted` are ids of deleted services whose archive is still there, and of those that were recovered.
    """

    installation: str
    host: str
    release: str
    written_at: datetime
    projects: tuple[Project, ...]
    keys: tuple[ApiKey, ...]
    services: tuple[ServiceEntry, ...]
    deleted: tuple[str, ...]
    deleted_names: dict[str, str] = {}
    sealed: Sealed


def entry_of(service: Service, sets: list[ReplicaSet]) -> ServiceEntry:
    """Return the entry of a service with its read replica sets."""
    return ServiceEntry(
        **_values(service, _OF_SERVICE),
        cpu_millis=service.size.cpu_millis,
        memory_gbs=service.size.memory_gbs,
        paused=service.paused and not service.asleep,
        archived=is_archived(service),
        replica_sets=tuple(_set_entry(each) for each in sets if each.ready_at is not None),
        origin=service.origin,
        life_span=None if service.life_span is None else service.life_span.as_granted,
    )


def service_of(entry: ServiceEntry, verifier: Secret, volume_type: str) -> Service:
    """Return the service of an entry, as a new row: it was not READY on this machine yet."""
    return Service(
        **_values(entry, _OF_SERVICE),
        size=Size(entry.cpu_millis, entry.memory_gbs),
        volume_type=volume_type,
        verifier=verifier,
        # Snapshots are not recovered.
        origin=None if entry.origin is None else replace(entry.origin, snapshot_id=None),
        life_span=entry.life_span,
    )


def set_of(entry: ReplicaSetEntry, service: Service) -> ReplicaSet:
    """Return the read replica set of an entry, as a new row."""
    return ReplicaSet(
        **_values(entry, _OF_SET),
        project_id=service.project_id,
        service_id=service.id,
        size=Size(entry.cpu_millis, entry.memory_gbs),
        nodes=tuple(Node(node_id, port) for node_id, port in entry.nodes),
    )


def _set_entry(each: ReplicaSet) -> ReplicaSetEntry:
    if each.size.cpu_millis is None or each.size.memory_gbs is None:
        raise AssertionError(f"BUG: read replica set {each.id} has no size")
    return ReplicaSetEntry(
        **_values(each, _OF_SET),
        cpu_millis=each.size.cpu_millis,
        memory_gbs=each.size.memory_gbs,
        nodes=tuple((node.id, node.port) for node in each.nodes),
    )


def _values(known: object, names: str) -> dict[str, Any]:
    return {name: getattr(known, name) for name in names.split()}
