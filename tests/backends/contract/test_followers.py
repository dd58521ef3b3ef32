"""What every backend does with standbys of databases elsewhere."""

from dataclasses import replace
from typing import Any

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.errors import Invalid
from ramet.model.passwords import Secret
from tests.backends.contract.elsewhere import Elsewhere, following
from tests.backends.contract.grounds import Ground


def follow(ground: Ground, elsewhere: Elsewhere, **options: Any) -> Server:
    """Make a standby that serves reads."""
    followers = ground.backend.followers
    facts, host = followers.examine(elsewhere.address, elsewhere.password)
    assert (facts.major in host.majors, facts.replication_problem) == (True, None)
    server = following(ground.new_server(), elsewhere, facts, **options)
    for _ in range(2):
        followers.keep(server, ground.backend.sources.seal(elsewhere.password))
    eventually(lambda: followers.fetch(server, facts.size_bytes, 0.5).facts is not None)
    ground.boot(server, clients=True)
    ground.backend.servers.open(server)
    return server


def test_a_standby_shows_the_rows_of_its_source_old_and_new(ground: Ground, elsewhere: Elsewhere) -> None:
    elsewhere.commit("one")
    server, followers = follow(ground, elsewhere), ground.backend.followers
    again, same = (followers.fetch(server, 0, 0.5).facts for _ in range(2))
    assert again == same is not None
    elsewhere.commit("two")
    eventually(lambda: elsewhere.values_in(server) == ["one", "two"])

    def is_level() -> bool:
        seen = followers.observe(server)
        return seen is not None and (seen.lag_bytes, seen.problem, seen.needs_copy) == (0, None, False)

    eventually(is_level)
    ground.backend.servers.stop(server)
    assert followers.observe(server) is None


def test_a_promoted_standby_is_a_service_of_its_own(ground: Ground, elsewhere: Elsewhere) -> None:
    elsewhere.commit("one")
    server, followers = follow(ground, elsewhere), ground.backend.followers
    eventually(lambda: followers.await_end(server, None, drain=False) is None)
    assert followers.await_end(server, None, drain=True) is not None
    for _ in range(2):
        eventually(lambda: followers.promote(server, 0.5) is None)
    for _ in range(2):
        followers.take_over(server, neutralize=False)
    for _ in range(2):
        followers.start_workers(server)
    ground.backend.servers.open(replace(server, upstream=None))
    for _ in range(2):
        assert followers.discard(server.service_id) is None
    ground.client.commit(server, "here")
    assert ground.client.values(server) == ["one", "here"]
    assert elsewhere.values() == ["one"]


def test_a_fork_of_a_standby_does_not_follow(ground: Ground, elsewhere: Elsewhere) -> None:
    elsewhere.commit("one")
    server = follow(ground, elsewhere)
    eventually(lambda: elsewhere.values_in(server) == ["one"])
    snapshot_id, facts = ground.snapshot(server)
    elsewhere.commit("two")
    eventually(lambda: elsewhere.values_in(server) == ["one", "two"])
    now, past = ground.fork(Source(server)), ground.fork(Source(server, snapshot_id=snapshot_id))
    ground.client.commit(now, "three")
    assert (ground.client.values(now), ground.client.values(past)) == (["one", "two", "three"], ["one"])
    assert elsewhere.values_in(server) == ["one", "two"]
    assert facts.size_bytes > 0


def test_another_copy_takes_the_place_of_the_data(ground: Ground, elsewhere: Elsewhere) -> None:
    elsewhere.commit("one")
    server, followers = follow(ground, elsewhere), ground.backend.followers
    followers.discard_copy(server.service_id)
    eventually(lambda: followers.copy_again(server, 0.5).facts is not None)
    assert set(followers.copy_again(server, 0.5).facts or ()) >= {"timeline", "redo_lsn"}
    assert elsewhere.values_in(server) == ["one"]
    ground.backend.servers.stop(server)
    for _ in range(2):
        followers.replace(server, keeps_wal=True)
    ground.boot(server, clients=True)
    ground.backend.servers.open(server)
    elsewhere.commit("two")
    eventually(lambda: elsewhere.values_in(server) == ["one", "two"])


def test_a_slot_of_its_own_ends_with_the_standby(ground: Ground, elsewhere: Elsewhere) -> None:
    server = follow(ground, elsewhere, makes_slot=True)
    assert [server.service_id in name for name in elsewhere.made_there()] == [True]
    ground.backend.servers.stop(server)
    assert ground.backend.followers.discard(server.service_id) is None
    assert elsewhere.made_there() == []


def test_a_source_that_cannot_be_read_is_refused(ground: Ground, elsewhere: Elsewhere) -> None:
    for part in (ground.backend.followers, ground.backend.subscriptions):
        with pytest.raises(Invalid):
            part.examine(elsewhere.address, Secret("another"))
