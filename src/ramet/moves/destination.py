"""What a move asks of the Ramet that a service moves to, and what the service takes along."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ramet.model.archive import SETTING
from ramet.model.environment import Environment
from ramet.model.life_span import LifeSpan
from ramet.model.parameters import parameters_of
from ramet.model.passwords import Secret
from ramet.model.restore_window import own_settings
from ramet.model.service import Service
from ramet.model.service_type import ServiceType
from ramet.model.status import Status
from ramet.model.wal_level import WalLevel, wal_level_of

_SHARED = "shared"


@dataclass(frozen=True)
class Address:
    """A Ramet, and a key to a project of it. `authority` verifies its certificate; "": those that browsers know do."""

    url: str
    project_id: str
    public_key: str
    secret_key: Secret
    authority: str = ""


@dataclass(frozen=True)
class Source:
    """The service as the other Ramet reaches it: `url` has no password. `authority` is PEM; None: `url` needs none."""

    url: str
    password: Secret
    authority: str | None


@dataclass(frozen=True)
class Belongings:
    """What the service has there, too: the first six from the beginning, all but the size as it is when it is open."""

    name: str
    service_type: ServiceType
    environment: Environment
    cpu_millis: str
    memory_gbs: str
    labels: Mapping[str, str]
    has_pooler: bool = False
    wal_level: WalLevel = WalLevel.REPLICA
    is_protected: bool = False
    is_archived: bool | None = None
    life_span: LifeSpan | None = None
    restore_settings: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """The service there. `follows`: it cannot be written to, and has what was written here until `replayed_lsn`.

    `problem` says why it does not receive anything, or why it could not be made.
    """

    status: Status
    follows: bool
    host: str
    port: int
    lag_bytes: int | None = None
    replayed_lsn: str | None = None
    problem: str | None = None
    was_ready: bool = False


class Destination(Protocol):
    """The other Ramet. Each method raises Failed for a refusal, and Unavailable when there is no answer."""

    def identify(self) -> tuple[str, bool]:
        """Return the id of the project that the key opens, and whether it is an ADMIN's."""

    def find(self, mark: Mapping[str, str]) -> str | None:
        """Return the id of the service there that has this label; None when there is none."""

    def follow(self, belongings: Belongings, source: Source, mark: Mapping[str, str], key: str) -> str:
        """Request a service that follows the source, with one more label; return its id.

        The same `key` gives the same service.
        """

    def look(self, service_id: str) -> Seen | None:
        """Return how a service there is; None when there is none any more."""

    def take_place(self, service_id: str, lsn: str) -> None:
        """Request that a service stops following as soon as it has all until `lsn`, and takes its source's place."""

    def equip(self, service_id: str, belongings: Belongings, mark: Mapping[str, str]) -> list[str]:
        """Give an open service what it has here; return in sentences what it could not be given. May run again.

        As long as it has the mark its name, environment and labels become those that the service has here now, without
        the mark: after that those that it has there count.
        """

    def delete(self, service_id: str) -> None:
        """Request that a service is deleted. May run again."""


OpenDestination = Callable[[Address], AbstractContextManager[Destination]]


def belongings_of(service: Service, name: str) -> Belongings:
    """Return what a service takes along, under a name."""
    size = service.size
    return Belongings(
        name=name,
        service_type=service.service_type,
        environment=service.environment,
        cpu_millis=_SHARED if size.cpu_millis is None else str(size.cpu_millis),
        memory_gbs=_SHARED if size.memory_gbs is None else str(size.memory_gbs),
        labels=service.labels,
        has_pooler=service.pooler_port is not None,
        wal_level=wal_level_of(service.settings),
        is_protected=service.protected,
        is_archived=service.settings.get(SETTING),
        life_span=service.life_span,
        restore_settings=own_settings(service.settings),
        parameters=parameters_of(service.settings),
    )
