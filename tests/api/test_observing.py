"""When services that follow are observed."""

from datetime import timedelta

import pytest

from ramet.backends.interface.subscriptions import SubscriptionState
from ramet.backends.interface.values import Server
from ramet.followers.observation import Observing
from tests.api.test_following import BODY, path_of
from tests.api.world import World


def test_a_subscription_is_observed_after_the_clock_was_set_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.post(path_of(world), {**BODY, "method": "LOGICAL"}).json()
    world.work()
    duty, observe, seen = Observing(world.plane), world.backend.subscriptions.observe, list[str]()
    duty.observe_subscriptions()

    def observed(server: Server) -> SubscriptionState:
        seen.append(server.service_id)
        return observe(server)

    monkeypatch.setattr(world.backend.subscriptions, "observe", observed)
    world.advance(timedelta(seconds=-60))
    duty.observe_subscriptions()
    assert seen == [service["service_id"]]
