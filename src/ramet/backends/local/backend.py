"""The backend of this host: each service is a PostgreSQL server with its own volume, archive and snapshots."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from ramet.archive.object_store import open_bucket
from ramet.backends.local.admission import USUAL_COMMIT_PERCENT, USUAL_RESERVE_PERCENT, LocalAdmission
from ramet.backends.local.copies import LocalCopies
from ramet.backends.local.followers.followers import LocalFollowers
from ramet.backends.local.host.certificates import open_authority
from ramet.backends.local.host.cgroups import NoLimits, open_limits
from ramet.backends.local.host.kernel_limits import Kernel
from ramet.backends.local.host.paths import digest_of, layout_of, sweep_sockets
from ramet.backends.local.host.system_user import server_account
from ramet.backends.local.insight import LocalInsight
from ramet.backends.local.logins import LocalLogins
from ramet.backends.local.machine import LocalHost
from ramet.backends.local.off_host.archive import LocalArchive, installation_id
from ramet.backends.local.parameters import LocalParameters
from ramet.backends.local.pooler.pooler import Poolers
from ramet.backends.local.replacements import LocalReplacements
from ramet.backends.local.replica import LocalReplicas
from ramet.backends.local.replication import LocalReplication
from ramet.backends.local.restore.restore import LocalRestore
from ramet.backends.local.server import read_only_storage
from ramet.backends.local.server.config_files import ConfigFiles
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.jobs import cpu_count
from ramet.backends.local.servers import LocalServers
from ramet.backends.local.sources.sources import LocalSources
from ramet.backends.local.sources.vault import Vault
from ramet.backends.local.subscriptions.subscriptions import LocalSubscriptions
from ramet.backends.local.upgrades.upgrades import LocalUpgrades
from ramet.backends.local.volumes.pool import Pool, open_pool
from ramet.backends.local.volumes.quota_support import open_quotas
from ramet.machine.installation import find_installations
from ramet.machine.processes import WORKER_RECORD

_Part = TypeVar("_Part")


def _part(make: Callable[["LocalBackend"], _Part]) -> cached_property[_Part]:
    """Return a property: a part of the backend, which is made when it is first used."""
    return cached_property(make)


@dataclass(frozen=True)
class LocalBackend:
    """PostgreSQL servers as processes of this host; obeys ramet.backends.interface.backend.Backend."""

    pool: Pool
    instances: Instances
    archive: LocalArchive
    vault: Vault
    admission: LocalAdmission

    poolers = _part(lambda it: Poolers(it.instances))
    servers = _part(lambda it: LocalServers(it.instances, it.pool, it.poolers))
    endpoints = _part(lambda it: it.servers.endpoints)
    restore = _part(lambda it: LocalRestore(it.instances, it.pool))
    copies = LocalCopies()
    replacements = _part(lambda it: LocalReplacements(it.instances, it.pool.driver, it.servers))
    replicas = _part(lambda it: LocalReplicas(it.instances, it.pool))
    sources = _part(lambda it: LocalSources(it.instances, it.pool, it.vault))
    subscriptions = _part(lambda it: LocalSubscriptions(it.instances, it.vault))
    logins = _part(lambda it: LocalLogins(it.instances))
    replication = _part(lambda it: LocalReplication(it.instances))
    insight = _part(lambda it: LocalInsight(it.instances))
    parameters = _part(lambda it: LocalParameters(it.instances))
    upgrades = _part(lambda it: LocalUpgrades(it.instances, it.pool))
    followers = _part(lambda it: LocalFollowers(it.instances, it.pool, it.vault))
    host = _part(lambda it: LocalHost(it.instances, it.pool, it.poolers, it.endpoints, it.admission))

    @property
    def authority(self) -> str:
        """The authority of this host."""
        return self.instances.authority.pem

    def close(self) -> None:
        """Nothing is open."""


def open_backend(
    data_root: Path,
    driver: str = "auto",
    *,
    image_size_bytes: int | None = None,
    has_limits: bool = True,
    temp_file_mbs: int | None = None,
    background_jobs: int | None = None,
    service_quota_bytes: int | None = None,
    archive_url: str = "",
    source_archives: Path | None = None,
    memory_reserve_percent: int = USUAL_RESERVE_PERCENT,
    memory_commit_percent: int = USUAL_COMMIT_PERCENT,
) -> LocalBackend:
    """Return the backend of a data root; its storage is made, or mounted again, when needed.

    `temp_file_mbs` bounds the temporary files of each process of a server; None means a share of the storage.
    `source_archives` has the WAL archives of servers elsewhere, one in each subdirectory.
    """
    has_quotas = service_quota_bytes is not None
    pool = open_pool(data_root, driver=driver, image_size_bytes=image_size_bytes, has_quotas=has_quotas)
    config = ConfigFiles(
        layout=layout_of(data_root, pool.path),
        account=server_account(),
        installations=find_installations(),
        copy_on_write=pool.driver.shares_blocks,
        temp_file_mbs=temp_file_mbs or read_only_storage.temp_file_mbs(pool.total_bytes()),
        slot_wal_mbs=read_only_storage.slot_wal_mbs(min(pool.total_bytes(), service_quota_bytes or pool.total_bytes())),
        source_archives=source_archives,
    )
    instances = Instances(
        config,
        authority=open_authority(data_root / "secrets"),
        limits=open_limits(digest_of(data_root)) if has_limits else NoLimits("RAMET_LIMITS is off"),
        background_jobs=background_jobs or cpu_count(),
        quotas=open_quotas(pool, service_quota_bytes),
    )
    sweep_sockets(instances.layout, time.time())
    bucket = open_bucket(archive_url) if archive_url else None
    archive = LocalArchive(instances, pool, bucket, installation_id(data_root / "secrets") if bucket else "")
    vault = Vault(data_root / "secrets" / "sources.key")
    kernel = Kernel(worker=data_root / WORKER_RECORD)
    admission = LocalAdmission(memory_reserve_percent, memory_commit_percent, config.account.uid, kernel)
    return LocalBackend(pool, instances, archive, vault, admission)
