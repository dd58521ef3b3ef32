"""The storage gets full while a service is being made: that ends with the reason, and leaves nothing."""

import pytest

from ramet.backends.interface.subscriptions import SubscriptionState
from ramet.backends.interface.values import Server
from ramet.backends.memory.host import MemoryHost
from ramet.errors import Exhausted
from tests.api.test_following import BODY, path_of
from tests.api.world import World


def test_the_first_copy_of_a_subscription_ends_when_the_storage_has_no_room_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_host: MemoryHost) -> None:
        raise Exhausted("NOT_ENOUGH_DISK", "The storage has 100 MiB left, and this needs 128 MiB")

    def half_copied(_server: Server) -> SubscriptionState:
        monkeypatch.setattr(MemoryHost, "check_room", full)
        return SubscriptionState(2, 1, 0)

    monkeypatch.setattr(world.backend.subscriptions, "observe", half_copied)
    accepted = world.post(path_of(world), {**BODY, "method": "LOGICAL"}).json()
    world.work()
    assert "100 MiB left" in str(world.look(accepted)["metadata"]["status_reason"])
    assert accepted["service_id"] not in world.backend.volumes
