"""What every backend does with databases elsewhere that are imported, or subscribed to."""

from dataclasses import replace

import pytest

from harness.waiting import eventually
from ramet.backends.interface.sources import SourceFacts
from ramet.backends.interface.values import Server, Source
from ramet.errors import Invalid
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from tests.backends.contract.elsewhere import Elsewhere
from tests.backends.contract.grounds import Ground


def load(ground: Ground, elsewhere: Elsewhere, server: Server, *, schema_only: bool = False) -> None:
    """Bring a source into an empty server, which is closed to clients afterwards."""
    sources, facts = ground.backend.sources, facts_of(ground, elsewhere)
    for _ in range(2):
        sources.keep(server, elsewhere.address, sources.seal(elsewhere.password))
    for _ in range(2):
        eventually(
            lambda: sources.fetch(server, elsewhere.address, facts, 0.5, schema_only=schema_only).facts is not None
        )
    ground.boot(server)
    ground.backend.servers.secure(server, is_new=True, neutralize=False)
    for _ in range(2):
        eventually(lambda: sources.load(server, facts, owners=True, timeout_seconds=0.5).facts is not None)
    for _ in range(2):
        sources.discard(server.service_id)


def facts_of(ground: Ground, elsewhere: Elsewhere) -> SourceFacts:
    facts, _ = ground.backend.sources.examine(elsewhere.address, elsewhere.password, ServiceType.POSTGRES)
    return facts


def subscribe(ground: Ground, elsewhere: Elsewhere) -> Server:
    """Make a service of the newest version that has the rows of a source, and receives its changes."""
    subscriptions = ground.backend.subscriptions
    server = replace(ground.new_server(), pg_major=max(ground.backend.upgrades.majors()))
    ground.backend.servers.initialize(server)
    for _ in range(2):
        subscriptions.publish(server, elsewhere.address, ground.backend.sources.seal(elsewhere.password))
    load(ground, elsewhere, server, schema_only=True)
    for _ in range(2):
        subscriptions.subscribe(server)
    ground.backend.servers.open(server)
    eventually(lambda: subscriptions.observe(server).is_copied)
    return server


def has(ground: Ground, server: Server, *values: str) -> bool:
    """Tell whether a service that subscribes has these rows; it is asked how far it is before."""
    state = ground.backend.subscriptions.observe(server)
    return state.problem is None and ground.client.values(server) == list(values)


def test_an_import_has_the_rows_of_its_source_and_does_not_follow(ground: Ground, elsewhere: Elsewhere) -> None:
    elsewhere.commit("one")
    server = ground.new_server()
    ground.backend.servers.initialize(server)
    load(ground, elsewhere, server)
    ground.backend.servers.open(server)
    elsewhere.commit("there")
    ground.client.commit(server, "here")
    assert ground.client.values(server) == ["one", "here"]
    assert (elsewhere.values(), elsewhere.made_there()) == (["one", "there"], [])


def test_the_version_is_the_one_that_was_asked_for_unless_it_is_older(ground: Ground, elsewhere: Elsewhere) -> None:
    major, newest = facts_of(ground, elsewhere).major, max(ground.backend.upgrades.majors())
    for wanted, found in ((newest, newest), (major, major), (major - 1, None)):
        asked = elsewhere.address, elsewhere.password, ServiceType.POSTGRES, wanted
        _, destination = ground.backend.sources.examine(*asked)
        assert destination.pg_major == found


def test_a_source_that_cannot_be_read_is_refused(ground: Ground, elsewhere: Elsewhere) -> None:
    with pytest.raises(Invalid):
        ground.backend.sources.examine(elsewhere.address, Secret("another"), ServiceType.POSTGRES)


def test_a_sealed_password_does_not_show_it(ground: Ground, elsewhere: Elsewhere) -> None:
    assert elsewhere.password.reveal() not in ground.backend.sources.seal(elsewhere.password)


def test_changes_arrive_until_a_subscription_is_finished(ground: Ground, elsewhere: Elsewhere) -> None:
    elsewhere.commit("one")
    server, subscriptions = subscribe(ground, elsewhere), ground.backend.subscriptions
    assert elsewhere.made_there() != []
    elsewhere.commit("two")
    eventually(lambda: has(ground, server, "one", "two"))
    eventually(lambda: subscriptions.finish(server, "one", 0.5).facts is not None)
    assert subscriptions.finish(server, "one", 0.5).facts is not None
    assert elsewhere.made_there() == []
    ground.client.commit(server, "here")
    assert ground.client.values(server) == ["one", "two", "here"]
    assert elsewhere.values() == ["one", "two"]


def test_a_fork_of_a_service_that_subscribes_does_not(ground: Ground, elsewhere: Elsewhere) -> None:
    elsewhere.commit("one")
    server = subscribe(ground, elsewhere)
    fork = ground.fork(Source(server))
    elsewhere.commit("two")
    eventually(lambda: has(ground, server, "one", "two"))
    assert ground.client.values(fork) == ["one"]
    assert ground.backend.subscriptions.observe(replace(fork, pg_major=server.pg_major)).problem is not None


def test_nothing_of_a_subscription_stays_in_the_source_when_its_service_goes(
    ground: Ground, elsewhere: Elsewhere
) -> None:
    server, subscriptions = subscribe(ground, elsewhere), ground.backend.subscriptions
    for _ in range(2):
        subscriptions.detach(server)
    assert subscriptions.observe(server).problem is not None
    for _ in range(2):
        subscriptions.discard(server.service_id)
    assert elsewhere.made_there() == []
