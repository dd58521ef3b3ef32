"""What an archive holds: the catalogue of its installations together, and what the store has of each service."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from ramet.archive import layout
from ramet.archive.base_backups import BaseBackups
from ramet.archive.object_store import Bucket
from ramet.archive.owner import Owner, owner_of
from ramet.errors import Failed, Invalid, NotFound
from ramet.model.keys import ApiKey
from ramet.model.project import Project
from ramet.recovery.catalogue import Catalogue, Secrets, ServiceEntry
from ramet.recovery.sealed import RecoveryKey
from ramet.recovery.versions import read_catalogues


@dataclass(frozen=True)
class Holding:
    """What the archive has of a service.

    It can be restored to times from `oldest`, the end of its first base backup, to about `newest`, when its last WAL
    arrived, by the clock of the object store. Both are None without a base backup. `size_bytes` is that of the newest
    base backup when it is unpacked, `archive_bytes` that of all objects.
    """

    entry: ServiceEntry
    project: str
    oldest: datetime | None
    newest: datetime | None
    size_bytes: int
    archive_bytes: int
    base_backups: int


@dataclass(frozen=True)
class Contents:
    """What an archive holds. `catalogues` has the last one of each installation: that of the writer comes first."""

    url: str
    owner: Owner | None
    catalogues: tuple[Catalogue, ...]
    holdings: tuple[Holding, ...]

    @property
    def last_written_at(self) -> datetime:
        """When something was written to the archive last."""
        times = [each.newest for each in self.holdings if each.newest is not None]
        return max([catalogue.written_at for catalogue in self.catalogues] + times)

    @property
    def projects(self) -> list[Project]:
        """The projects; of one that several catalogues have, as the first says."""
        return list({one.id: one for each in reversed(self.catalogues) for one in each.projects}.values())

    @property
    def keys(self) -> list[ApiKey]:
        """The API keys, as the projects."""
        return list({one.public_key: one for each in reversed(self.catalogues) for one in each.keys}.values())

    def secrets(self, key: RecoveryKey) -> Secrets:
        """Return the secrets. Raises Invalid when the key does not open those of the first catalogue.

        Of earlier installations, verifiers are added where the key opens their catalogues.
        """
        first, *others = self.catalogues
        found = key.unseal(first.sealed, first.installation)
        verifiers = dict(found.verifiers)
        for each in others:
            if each.sealed.key_id == key.key_id:
                verifiers = key.unseal(each.sealed, each.installation).verifiers | verifiers
        return Secrets(files=found.files, verifiers=verifiers, sessions=found.sessions, requests=found.requests)

    def choose(self, names: Iterable[str]) -> list[Holding]:
        """Return the services with these ids or names, in the order of the catalogue. Raises NotFound, or Invalid."""
        wanted = {self._named(name).entry.id for name in names}
        return [each for each in self.holdings if each.entry.id in wanted]

    def _named(self, name: str) -> Holding:
        for each in self.holdings:
            if each.entry.id == name:
                return each
        found = [each for each in self.holdings if each.entry.name == name]
        if not found:
            raise self._not_found(name)
        if len(found) > 1:
            ids = ", ".join(each.entry.id for each in found)
            raise Invalid("AMBIGUOUS_NAME", f"{len(found)} services are named {name!r}", f"Give an id: {ids}.")
        return found[0]

    def _not_found(self, name: str) -> NotFound:
        hosts = {service_id: each.host for each in reversed(self.catalogues) for service_id in each.deleted}
        known = {entry.id: entry.name for each in reversed(self.catalogues) for entry in each.services}
        for each in reversed(self.catalogues):
            known |= each.deleted_names
        deleted = next((one for one in hosts if name in (one, known.get(one))), None)
        if deleted is not None:
            which = f"{known[deleted]} ({deleted})" if deleted in known else deleted
            return NotFound(
                "SERVICE_NOT_FOUND",
                f"Service {which} was deleted on {hosts[deleted]}, and is not recovered",
                "Until its archive expires, 'ramet service fork --from-deleted' there makes a fork of it if it had a"
                " base backup there, and Barman can restore it anywhere: see docs/archive.md.",
            )
        remedy = f"'ramet recover --from {self.url}' lists what is there."
        return NotFound("SERVICE_NOT_FOUND", f"The archive has no service with the id or the name {name!r}", remedy)


def read_contents(bucket: Bucket) -> Contents:
    """Return what an archive holds. Raises NotFound when it has no catalogue."""
    try:
        owner = owner_of(bucket)
    except Failed:  # whoever takes the archive over writes it again
        owner = None
    catalogues = _writer_first(read_catalogues(bucket), owner)
    if not catalogues:
        raise _empty(bucket)
    names = {project.id: project.name for each in reversed(catalogues) for project in each.projects}
    holdings = tuple(_holding(bucket, entry, names.get(entry.project_id, "")) for entry in _entries(catalogues))
    return Contents(bucket.url, owner, tuple(catalogues), holdings)


def _writer_first(catalogues: list[Catalogue], owner: Owner | None) -> list[Catalogue]:
    """Return the catalogues, that of the archive's writer first: an earlier writer may have written after the end."""
    writer = None if owner is None else owner.installation
    return sorted(catalogues, key=lambda one: one.installation != writer)


def _entries(catalogues: list[Catalogue]) -> list[ServiceEntry]:
    """Return the services of all catalogues, but those that a later one has or says to be deleted."""
    known, entries = set[str](), list[ServiceEntry]()
    for catalogue in catalogues:
        entries += [entry for entry in catalogue.services if entry.id not in known]
        known |= {entry.id for entry in catalogue.services} | set(catalogue.deleted)
    return entries


def _holding(bucket: Bucket, entry: ServiceEntry, project: str) -> Holding:
    backups = BaseBackups(bucket, entry.archive_name).complete()
    objects = list(bucket.objects(f"{entry.archive_name}/"))
    wal_prefix = layout.wal_prefix(entry.archive_name)
    wal_times = [found.written_at for found in objects if found.key.startswith(wal_prefix)]
    if backups:  # while a service is upgraded, its row may have another version than what was archived so far
        entry = replace(entry, pg_major=backups[-1].pg_version // 10_000)
    return Holding(
        entry=entry,
        project=project,
        oldest=backups[0].end_time if backups else None,
        newest=max([*wal_times, backups[-1].end_time]) if backups else None,
        size_bytes=backups[-1].size_bytes if backups else 0,
        archive_bytes=sum(found.size_bytes for found in objects),
        base_backups=len(backups),
    )


def _empty(bucket: Bucket) -> NotFound:
    servers = [name for name in bucket.directories() if bucket.directories(layout.base_prefix(name))]
    if servers:
        return NotFound(
            "NO_CATALOGUE",
            f"The archive {bucket.url} has base backups of {len(servers)} services and no catalogue",
            "An earlier release wrote it. docs/archive.md says how to restore such services with Barman.",
        )
    return NotFound(
        "ARCHIVE_EMPTY",
        f"The archive {bucket.url} is empty",
        "Check the bucket and the prefix: they are those of RAMET_ARCHIVE_URL on the lost host.",
    )
