"""A service that is forked often keeps warm forks by itself; what is not asked for, or is of no use, is not made."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from ramet.store import services
from ramet.warm_forks import keeping
from ramet.warm_forks.demand import OFTEN
from ramet.warm_forks.keeping import WASTE_SECONDS, KeepingWarm
from tests.api.world import JsonObject
from tests.warm_forks.conftest import MOST_AUTOMATIC, Warm

_MADE_WITHIN = 40  # calls of the duty


def fork_often(warm: Warm, times: int = OFTEN, **fields: Any) -> None:
    """Ask for forks as a program does, and let the duty look at what it has asked for."""
    for _ in range(times):
        warm.world.fork(warm.shop, **fields)
        warm.world.work()
    warm.tend(_MADE_WITHIN)


def shown(warm: Warm) -> JsonObject:
    return dict(warm.world.get(warm.path).json())


def test_a_service_that_is_forked_often_keeps_forks_for_an_hour(everywhere: Warm) -> None:
    warm = everywhere
    fork_often(warm, OFTEN - 1)
    assert (warm.ids(), shown(warm)["automatic"], shown(warm)["size"]) == (set(), True, 0)
    fork_often(warm, 1)
    assert (len(warm.ids()), shown(warm)["size"], shown(warm)["ready"]) == (OFTEN, OFTEN, OFTEN)
    assert "warm_forks" not in warm.world.look(warm.shop)["metadata"]  # nobody chose them
    kept = warm.ids()
    warm.world.advance(timedelta(minutes=50))
    warm.tend()
    assert warm.ids() == kept
    warm.world.advance(timedelta(minutes=11))
    warm.tend()
    assert warm.ids() == set()


def test_a_batch_that_comes_again_finds_as_many_as_it_had(warm: Warm) -> None:
    fork_often(warm, 4)
    warm.world.advance(timedelta(minutes=20))
    fork_often(warm, 6)
    assert len(warm.ids()) == 6


@pytest.mark.parametrize(("most_ports", "kept"), [(20, 2), (12, 0)])
def test_clients_need_the_ports_more(warm: Warm, most_ports: int, kept: int) -> None:
    """Automatic forks take a tenth of the ports at most, and none where clients have four fifths of them."""
    for _ in range(OFTEN):
        warm.world.fork(warm.shop)
        warm.world.work()
    with warm.world.store.write() as tx:
        ports = range(min(services.used_ports(tx)), max(services.used_ports(tx)) + 1)
    few = replace(warm.world.plane.placement, ports=range(ports.start, ports.start + most_ports))
    keeper = KeepingWarm(replace(warm.world.plane, placement=few), MOST_AUTOMATIC)
    assert sum(pool.size for pool in keeper._demand.pools().values()) == kept


def test_a_fork_from_an_automatic_pool_is_queued_in_the_response_and_ready_at_the_next_look(warm: Warm) -> None:
    fork_often(warm)
    kept = warm.ids()
    fork = warm.world.fork(warm.shop, name="preview")
    assert (fork["service_id"] in kept, fork["status"]) == (True, "QUEUED")
    found = warm.world.look(fork)
    assert (found["status"], found["name"], warm.rows(fork)) == ("READY", "preview", ["first"])


def test_an_automatic_pool_has_a_largest_size(warm: Warm) -> None:
    fork_often(warm, MOST_AUTOMATIC + 3)
    assert len(warm.ids()) == MOST_AUTOMATIC


@pytest.mark.parametrize(
    "fields",
    [
        {"fork_strategy": "LAST_SNAPSHOT"},
        {"environment_tag": "PROD"},
        {"cpu_millis": "500", "memory_gbs": "2"},
        {"sleep_after_seconds": 300},
        {"wal_level": "logical"},
    ],
)
def test_forks_that_no_warm_one_would_have_fitted_are_no_demand(warm: Warm, fields: dict[str, Any]) -> None:
    fork_often(warm, OFTEN, **fields)
    assert warm.ids() == set()


def test_a_pool_that_a_service_was_given_counts_and_none_is_kept_where_that_was_said(warm: Warm) -> None:
    fork_often(warm)
    warm.keep(2)
    assert (len(warm.ids()), warm.world.fork(warm.shop)["status"]) == (2, "READY")
    warm.keep(0)
    assert (warm.ids(), shown(warm)) == (set(), {"size": 0, "ready": 0, "being_made": 0})
    warm.tend()
    assert warm.ids() == set()
    warm.world.delete(warm.path)
    warm.tend(_MADE_WITHIN)
    assert len(warm.ids()) > 2


def test_no_fork_is_given_from_the_moment_on_at_which_somebody_chose_to_have_none(warm: Warm) -> None:
    fork_often(warm)
    kept = warm.ids()
    warm.world.client.put(warm.path, json={"size": 0}, auth=warm.world.tenant.credentials)
    for fields in ({}, {"max_age_seconds": 60}):
        fork = warm.world.fork(warm.shop, **fields)
        assert (fork["service_id"] in kept, fork["status"]) == (False, "QUEUED")


def test_forks_from_before_the_clock_was_set_back_are_no_demand(warm: Warm) -> None:
    warm.world.advance(timedelta(days=30))
    fork_often(warm)
    assert warm.ids()
    warm.world.advance(timedelta(days=-30))
    warm.tend(_MADE_WITHIN)
    assert warm.ids() == set()


def test_the_store_is_not_asked_for_failures_while_a_parent_is_written_to(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(OFTEN):
        warm.world.fork(warm.shop)
        warm.world.work()
    asked = Mock(return_value=False)
    monkeypatch.setattr(keeping, "has_failed_since", asked)
    for n in range(5):
        warm.write(str(n))
        warm.tend(1)
    asked.assert_not_called()


def test_a_parent_that_is_written_to_gets_no_automatic_forks_until_it_is_quiet(warm: Warm) -> None:
    for _ in range(OFTEN):
        warm.world.fork(warm.shop)
        warm.world.work()
    for n in range(_MADE_WITHIN):
        warm.write(str(n))
        warm.tend(1)
    assert warm.ids() == set()
    warm.tend(_MADE_WITHIN)
    assert len(warm.ids()) == OFTEN


def test_forks_that_a_commit_made_useless_go_at_once_and_delay_the_next_ones(warm: Warm) -> None:
    fork_often(warm)
    before = warm.ids()
    warm.write()
    while before & warm.ids():
        warm.tend(1)
    begun = warm.keeper.seconds()
    while not warm.ids():
        warm.tend(1)
    assert warm.keeper.seconds() - begun > WASTE_SECONDS * (OFTEN - 1)
    assert warm.world.fork(warm.shop)["service_id"] not in before
