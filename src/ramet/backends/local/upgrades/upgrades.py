"""Upgrades of servers of this host."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

from ramet.backends.interface.archive import ARCHIVE_BUSY
from ramet.backends.interface.values import Progress, Server
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.jobs import Jobs
from ramet.backends.local.sql import connections, logins
from ramet.backends.local.upgrades import cluster, examine, platform_objects, silence, survey
from ramet.backends.local.upgrades.cluster import Cluster
from ramet.backends.local.volumes.pool import Pool
from ramet.errors import Unavailable
from ramet.ids import new_id
from ramet.model.upgrade import Statement, Survey, UpgradeFacts

_KEPT_BEHIND = "functions"
_MOST_AT_ONCE = 256  # the worker's threads are the limit
_KILL_SECONDS, _ARCHIVE_SECONDS = 10.0, 1.0


@dataclass(frozen=True)
class LocalUpgrades:
    """pg_upgrade on the volumes of this host; obeys ramet.backends.interface.upgrades.Upgrades."""

    instances: Instances
    pool: Pool

    @cached_property
    def jobs(self) -> Jobs:
        """The upgrades that run now."""
        return self.instances.jobs_of("upgrades.lock", _MOST_AT_ONCE)

    def majors(self) -> Sequence[int]:
        return sorted(self.instances.installations.by_major)

    def examine(self, server: Server, to_major: int) -> UpgradeFacts:
        of = self.instances.installations.of
        return examine.examine(self.instances.paths(server.service_id), of(server.pg_major), of(to_major))

    def survey(self, server: Server, statements: Sequence[Statement], timeout_seconds: float) -> Survey | None:
        paths = self.instances.paths(server.service_id)
        found = survey.made(paths, server.pg_major)
        if found is None:
            name, work = f"survey-{server.pg_major}", partial(survey.make, self.instances, server, statements)
            self.jobs.result_of(paths, name, work, timeout_seconds, code="UPGRADE_FAILED")
            found = survey.made(paths, server.pg_major)  # in the volume: whoever asks late does not survey it again
        return found

    def prepare(self, server: Server) -> None:
        paths = self.instances.paths(server.service_id)
        platform_objects.take_out(paths)
        token = self._token(paths)
        for database in platform_objects.databases(paths):
            with connections.connect(paths, database, quote_all_identifiers="on") as connection:
                silence.begin(connection, database, token)

    def upgrade(self, server: Server, from_major: int, timeout_seconds: float) -> Progress:
        of = self.instances.installations.of
        made = Cluster(self.instances, self.pool.driver, server, of(from_major), of(server.pg_major))
        done = made.directory / "upgraded.json"
        facts = self.jobs.kept_result(
            made.paths, done, made.upgrade, timeout_seconds, code="UPGRADE_FAILED", name="upgrade"
        )
        return Progress(facts, made.progress())

    def hand_over(self, from_id: str, to_id: str) -> None:
        """Rename the directory of a service, which is one act; what belongs to its id alone is made again."""
        source, target = self.instances.paths(from_id), self.instances.paths(to_id)
        if not source.root.exists() or target.root.exists():
            return
        self.instances.end(from_id, _KILL_SECONDS)
        cluster.remove(self.pool.driver, source)
        with _unarchived(source):
            source.root.rename(target.root)
        files.flush(target.root.parent)

    def complete(self, server: Server, from_major: int) -> Sequence[str]:
        paths = self.instances.paths(server.service_id)
        for database in platform_objects.databases(paths):
            with connections.connect(paths, database) as connection:
                silence.end(connection, database, self._token(paths))
        with connections.connect(paths) as connection:
            logins.disable_all(connection)
        return platform_objects.put_back(paths, server, from_major)

    def _token(self, paths: ServicePaths) -> str:
        """Return the token behind which functions and checks are kept during one upgrade."""
        kept = cluster.directory_of(paths) / _KEPT_BEHIND
        if not files.read(kept):
            self.instances.account.make_directory(kept.parent)
            files.write(kept, new_id().encode(), durable=True)
        return files.read_existing(kept)


@contextmanager
def _unarchived(paths: ServicePaths) -> Iterator[None]:
    """Keep the archive from reading a service's directory. Raises Unavailable while it does."""
    try:
        with (
            files.locked(paths.archiving_lock, timeout_seconds=_ARCHIVE_SECONDS),
            files.locked(paths.uploading_lock, timeout_seconds=_ARCHIVE_SECONDS),
        ):
            yield
    except TimeoutError as error:
        raise Unavailable(ARCHIVE_BUSY, f"The archive of service {paths.service_id} is being written") from error
