"""A world whose service keeps warm forks, and the duty that makes them, called by the tests."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ramet.model.service import Service
from ramet.store.warm_forks import unclaimed_forks
from ramet.warm_forks.keeping import KeepingWarm
from tests.api.world import JsonObject, World, open_world
from tests.stores import postgresql_server, url

__all__ = ["everywhere", "postgresql_server", "url", "warm"]

SECONDS_BETWEEN_LOOKS = 3
MOST_AUTOMATIC = 12


@dataclass
class Warm:
    """The world, its service, and the keeper; each call of the duty looks at the commits again."""

    world: World
    shop: JsonObject
    keeper: KeepingWarm = field(init=False)

    def __post_init__(self) -> None:
        times = count(0, SECONDS_BETWEEN_LOOKS)
        self.keeper = KeepingWarm(self.world.plane, MOST_AUTOMATIC, seconds=lambda: float(next(times)))

    @property
    def path(self) -> str:
        return self.world.path(self.shop["service_id"], "warmForks")

    def keep(self, size: int, **fields: Any) -> None:
        """Ask for a pool, and let it fill."""
        answer = self.world.client.put(self.path, json={"size": size, **fields}, auth=self.world.tenant.credentials)
        assert answer.status_code == 200, answer.text
        self.tend()

    def tend(self, times: int = 12) -> None:
        """Call the duty again and again, and do what it has submitted."""
        for _ in range(times):
            self.keeper.maintain()
            self.world.work()

    def forks(self) -> list[Service]:
        """Return the forks that nobody has."""
        with self.world.store.read() as tx:
            return unclaimed_forks(tx)

    def ids(self) -> set[str]:
        return {one.id for one in self.forks()}

    def rows(self, service: JsonObject) -> list[str]:
        return self.world.backend.values(service["service_id"])

    def write(self, value: str = "more") -> None:
        self.world.backend.commit(self.shop["service_id"], value)


@pytest.fixture
def everywhere(tmp_path: Path, url: str) -> Iterator[Warm]:
    """The same on each database that a store can be in."""
    for world in open_world(tmp_path, url):
        found = Warm(world, world.ready())
        found.write("first")
        yield found


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Warm]:
    """A service with a row, which keeps nothing yet."""
    for world in open_world(tmp_path):
        found = Warm(world, world.ready())
        found.write("first")
        yield found
