"""What only the local backend offers: each is refused when it is asked for."""

from collections.abc import Sequence
from typing import Any, NoReturn

from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.followers import HostFacts, UpstreamFacts
from ramet.backends.interface.sources import Destination, Loading, SourceAddress, SourceFacts
from ramet.backends.interface.subscriptions import PublisherFacts, SubscriptionState
from ramet.backends.interface.upgrades import Upgrading
from ramet.backends.interface.values import Holdings, Server, Source
from ramet.errors import Invalid
from ramet.model.passwords import Secret
from ramet.model.service import ServiceType
from ramet.model.upgrade import Statement, Survey, UpgradeFacts
from ramet.model.upstream import Following

_RESTORES = "restores in place, resets and rewinds: fork the service instead"


def refuse(what: str) -> NoReturn:
    """Raise Invalid for what this backend lacks."""
    raise Invalid(
        "NOT_ON_KUBERNETES",
        f"The backend for Kubernetes has no {what}",
        "Use a Ramet with the local backend for that.",
    )


class NoSources:
    """No imports; obeys ramet.backends.interface.sources.Sources."""

    def examine(
        self, source: SourceAddress, password: Secret, service_type: ServiceType
    ) -> tuple[SourceFacts, Destination]:
        refuse("imports")

    def seal(self, password: Secret) -> str:
        refuse("imports")

    def keep(self, server: Server, source: SourceAddress, sealed: str) -> None:
        refuse("imports")

    def fetch(
        self,
        server: Server,
        source: SourceAddress,
        facts: SourceFacts,
        timeout_seconds: float,
        *,
        schema_only: bool = False,
    ) -> Loading:
        refuse("imports")

    def load(self, server: Server, facts: SourceFacts, *, owners: bool, timeout_seconds: float) -> Loading:
        refuse("imports")

    def discard(self, service_id: str) -> None:
        """Have nothing to discard."""


class NoSubscriptions:
    """No subscriptions; obeys ramet.backends.interface.subscriptions.Subscriptions."""

    def examine(self, source: SourceAddress, password: Secret) -> PublisherFacts:
        refuse("services that follow a database elsewhere")

    def publish(self, server: Server, source: SourceAddress, sealed: str) -> None:
        refuse("services that follow a database elsewhere")

    def subscribe(self, server: Server) -> None:
        refuse("services that follow a database elsewhere")

    def observe(self, server: Server) -> SubscriptionState:
        refuse("services that follow a database elsewhere")

    def finish(self, server: Server, timeout_seconds: float) -> Loading:
        refuse("services that follow a database elsewhere")

    def discard(self, service_id: str) -> None:
        """Have nothing to discard."""


class NoFollowers:
    """No standbys of databases elsewhere; obeys ramet.backends.interface.followers.Followers."""

    def examine(
        self, source: SourceAddress, password: Secret, archive: str | None = None
    ) -> tuple[UpstreamFacts, HostFacts]:
        refuse("services that follow a database elsewhere")

    def keep(self, server: Server, sealed: str) -> None:
        refuse("services that follow a database elsewhere")

    def fetch(self, server: Server, size_bytes: int, timeout_seconds: float) -> Loading:
        refuse("services that follow a database elsewhere")

    def copy_again(self, server: Server, timeout_seconds: float) -> Loading:
        refuse("services that follow a database elsewhere")

    def replace(self, server: Server, *, keeps_wal: bool) -> None:
        refuse("services that follow a database elsewhere")

    def discard_copy(self, service_id: str) -> None:
        """Have nothing to discard."""

    def observe(self, server: Server) -> Following | None:
        """Follow nothing."""
        return None

    def await_end(self, server: Server, lsn: str | None, *, drain: bool) -> str | None:
        refuse("services that follow a database elsewhere")

    def promote(self, server: Server, timeout_seconds: float) -> bool:
        refuse("services that follow a database elsewhere")

    def take_over(self, server: Server, *, neutralize: bool) -> dict[str, Any]:
        refuse("services that follow a database elsewhere")

    def discard(self, service_id: str) -> str | None:
        """Have nothing to discard."""
        return None


class NoUpgrades:
    """The versions of the images, and no upgrades; obeys ramet.backends.interface.upgrades.Upgrades."""

    def __init__(self, majors: Sequence[int]) -> None:
        self._majors = majors

    def majors(self) -> Sequence[int]:
        return sorted(self._majors)

    def examine(self, server: Server, to_major: int) -> UpgradeFacts:
        refuse("upgrades to another major version")

    def survey(self, server: Server, statements: Sequence[Statement], timeout_seconds: float) -> Survey | None:
        refuse("upgrades to another major version")

    def prepare(self, server: Server) -> None:
        refuse("upgrades to another major version")

    def upgrade(self, server: Server, from_major: int, timeout_seconds: float) -> Upgrading:
        refuse("upgrades to another major version")

    def hand_over(self, from_id: str, to_id: str) -> None:
        refuse("upgrades to another major version")

    def complete(self, server: Server, from_major: int) -> Sequence[str]:
        refuse("upgrades to another major version")


class NoArchive:
    """No off-host archive of Ramet's own; obeys ramet.backends.interface.archive.Archive."""

    def url(self) -> str | None:
        """Have none: nothing else is called."""
        return None

    def maintain(self, server: Server, *, paused: bool, timeout_seconds: float) -> ArchiveState:
        refuse("off-host archive")

    def is_sending(self, server: Server) -> bool:
        refuse("off-host archive")

    def discard(self, server: Server, before: object) -> None:
        refuse("off-host archive")

    def remove(self, server: Server) -> None:
        refuse("off-host archive")

    def check(self, server: Server, budget_bytes: int) -> int:
        refuse("off-host archive")

    def holdings(self, server: Server) -> Holdings:
        refuse("off-host archive")

    def fetch(self, child: Server, source: Source, timeout_seconds: float) -> str | None:
        refuse("off-host archive")


class NoReplicas:
    """No read replica sets; obeys ramet.backends.interface.replicas.Replicas."""

    def check_room(self, primary: Server) -> None:
        refuse("read replica sets")

    def create(self, replica: Server) -> bool:
        refuse("read replica sets")

    def start_balancer(self, servers: Sequence[Server], port: int) -> None:
        refuse("read replica sets")

    def balancer_serves(self, service_id: str) -> bool:
        return False


class NoReplacements:
    """No restores in place; obeys ramet.backends.interface.replacements.Replacements."""

    def check(self) -> None:
        refuse(_RESTORES)

    def reserve_timeline(self, copy: Server, service_id: str) -> None:
        refuse(_RESTORES)

    def leave_timeline(self, copy: Server, service_id: str, timeout_seconds: float) -> str | None:
        refuse(_RESTORES)

    def secure(self, copy: Server, *, rotate: bool, neutralize: bool) -> dict[str, Any]:
        refuse(_RESTORES)

    def close(self, copy: Server) -> None:
        refuse(_RESTORES)

    def flush(self, server: Server) -> None:
        refuse(_RESTORES)

    def release(self, server: Server, copy: Server) -> None:
        refuse(_RESTORES)

    def move_data(self, source: Server, target: Server, snapshot_ids: Sequence[str] = ()) -> None:
        refuse(_RESTORES)

    def adopt(self, server: Server, copy: Server) -> None:
        refuse(_RESTORES)

    def open(self, server: Server) -> None:
        refuse(_RESTORES)
