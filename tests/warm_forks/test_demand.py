"""A service that is forked often keeps warm forks by itself; what is not asked for, or is of no use, is not made."""

from datetime import timedelta
from typing import Any

import pytest

from ramet.warm_forks import keeping
from ramet.warm_forks.demand import OFTEN
from ramet.warm_forks.keeping import WASTE_SECONDS
from tests.api.world import JsonObject
from tests.warm_forks.conftest import MOST_AUTOMATIC, Warm

_MADE_WITHIN = 40  # calls of the duty
_LONG_AFTER = timedelta(minutes=11)  # the last batch


def fork_often(warm: Warm, times: int = OFTEN, **fields: Any) -> None:
    """Ask for forks as a program does, and let the duty look at what it has asked for."""
    for _ in range(times):
        warm.world.fork(warm.shop, **fields)
        warm.world.work()
    warm.tend(_MADE_WITHIN)


def shown(warm: Warm) -> JsonObject:
    return dict(warm.world.get(warm.path).json())


def test_a_service_that_is_forked_often_keeps_forks_until_it_is_not(everywhere: Warm) -> None:
    warm = everywhere
    fork_often(warm, OFTEN - 1)
    assert warm.ids() == set()
    fork_often(warm, 1)
    assert len(warm.ids()) == OFTEN
    assert (shown(warm)["automatic"], shown(warm)["ready"]) == (True, OFTEN)
    assert "warm_forks" not in warm.world.look(warm.shop)["metadata"]  # it was told nothing
    kept = warm.ids()
    warm.world.advance(_LONG_AFTER)
    warm.tend()
    assert len(warm.ids() & kept) == 2  # twice the one that is kept for the rest of the hour
    warm.world.advance(timedelta(hours=1))
    warm.tend()
    assert warm.ids() == set()


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
    ],
)
def test_forks_that_no_warm_one_would_have_fitted_are_no_demand(warm: Warm, fields: dict[str, str]) -> None:
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

    def asked(*_: object) -> bool:
        raise AssertionError("every second, and for nothing")

    monkeypatch.setattr(keeping, "has_failed_since", asked)
    for n in range(5):
        warm.write(str(n))
        warm.tend(1)


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


def test_forks_that_a_commit_made_useless_are_replaced_slowly(warm: Warm) -> None:
    fork_often(warm)
    before, begun = warm.ids(), warm.keeper.seconds()
    warm.write()
    while before & warm.ids():
        warm.tend(1)
        assert len(before - warm.ids()) <= 1 + (warm.keeper.seconds() - begun) / WASTE_SECONDS
