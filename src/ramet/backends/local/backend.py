"""The backend of this host: each service is a PostgreSQL server with its own volume, archive and snapshots."""

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ramet.archive.object_store import open_bucket
from ramet.backends.local.followers.followers import LocalFollowers
from ramet.backends.local.host.certificates import open_authority
from ramet.backends.local.host.cgroups import NoLimits, open_limits
from ramet.backends.local.host.paths import digest_of, layout_of, sweep_sockets
from ramet.backends.local.host.system_user import server_account
from ramet.backends.local.machine import LocalHost
from ramet.backends.local.off_host.archive import LocalArchive, installation_id
from ramet.backends.local.pooler.pooler import Poolers
from ramet.backends.local.replica import LocalReplicas
from ramet.backends.local.replication import LocalReplication
from ramet.backends.local.restore.restore import LocalRestore
from ramet.backends.local.server import read_only_storage
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


@dataclass(frozen=True)
class LocalBackend:
    """PostgreSQL servers as processes of this host; obeys ramet.backends.interface.backend.Backend."""

    pool: Pool
    instances: Instances
    archive: LocalArchive
    vault: Vault

    @cached_property
    def servers(self) -> LocalServers:
        return LocalServers(self.instances, self.pool.driver, self.poolers)

    @cached_property
    def restore(self) -> LocalRestore:
        return LocalRestore(self.instances, self.pool)

    @cached_property
    def replicas(self) -> LocalReplicas:
        """Read replicas and their balancers."""
        return LocalReplicas(self.instances, self.pool)

    @cached_property
    def poolers(self) -> Poolers:
        """The poolers of services and replica sets."""
        return Poolers(self.instances)

    @cached_property
    def sources(self) -> LocalSources:
        """Databases elsewhere."""
        return LocalSources(self.instances, self.pool, self.vault)

    @cached_property
    def subscriptions(self) -> LocalSubscriptions:
        """Subscriptions to databases elsewhere."""
        return LocalSubscriptions(self.instances, self.vault)

    @cached_property
    def replication(self) -> LocalReplication:
        """Logical replication to servers elsewhere."""
        return LocalReplication(self.instances)

    @cached_property
    def upgrades(self) -> LocalUpgrades:
        """Other major versions."""
        return LocalUpgrades(self.instances, self.pool)

    @cached_property
    def followers(self) -> LocalFollowers:
        """Standbys of databases elsewhere."""
        return LocalFollowers(self.instances, self.pool, self.vault)

    @cached_property
    def host(self) -> LocalHost:
        """The host as a whole."""
        return LocalHost(self.instances, self.pool, self.poolers)


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
) -> LocalBackend:
    """Return the backend of a data root; its storage is made, or mounted again, when needed.

    `temp_file_mbs` bounds the temporary files of each process of a server; None means a share of the storage.
    `source_archives` has the WAL archives of servers elsewhere, one in each subdirectory.
    """
    has_quotas = service_quota_bytes is not None
    pool = open_pool(data_root, driver=driver, image_size_bytes=image_size_bytes, has_quotas=has_quotas)
    instances = Instances(
        layout=layout_of(data_root, pool.path),
        account=server_account(),
        installations=find_installations(),
        authority=open_authority(data_root / "secrets"),
        limits=open_limits(digest_of(data_root)) if has_limits else NoLimits("RAMET_LIMITS is off"),
        copy_on_write=pool.driver.shares_blocks,
        temp_file_mbs=temp_file_mbs or read_only_storage.temp_file_mbs(pool.total_bytes()),
        slot_wal_mbs=read_only_storage.slot_wal_mbs(min(pool.total_bytes(), service_quota_bytes or pool.total_bytes())),
        background_jobs=background_jobs or cpu_count(),
        quotas=open_quotas(pool, service_quota_bytes),
        source_archives=source_archives,
    )
    sweep_sockets(instances.layout, time.time())
    bucket = open_bucket(archive_url) if archive_url else None
    archive = LocalArchive(instances, pool, bucket, installation_id(data_root / "secrets") if bucket else "")
    return LocalBackend(pool, instances, archive, Vault(data_root / "secrets" / "sources.key"))
