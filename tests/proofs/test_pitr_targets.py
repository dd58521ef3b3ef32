"""Every kind of target that proofs of forks name, over the whole product with real servers: the ledger decides."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest

from harness.waiting import eventually
from prove.ground import Ground, Running
from ramet.backends.local.process import postgres
from ramet.control.restore import get_restore_window
from ramet.control.services import resize_service
from ramet.errors import Invalid
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.model.timestamps import rfc3339
from tests.proofs.ledgers import append, at, make_ledger, rows_at
from tests.worlds import fork_service

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Ledger:
    """A service that no test changes, with the rows 1, 2 and 3, and when each was committed."""

    running: Running
    times: list[datetime]


@pytest.fixture(scope="module")
def ledger(ground: Ground) -> Iterator[Ledger]:
    running = ground.create("ledger")
    make_ledger(running)
    yield Ledger(running, append(running, 1, 2, 3))
    ground.delete(running)


def earliest(ground: Ground, running: Running) -> datetime:
    """Return where a service's restore window begins, once it does."""
    found: list[datetime] = []

    def has_begun() -> bool:
        begun = get_restore_window(ground.plane, ground.project_id, running.service.id).earliest
        found.extend([] if begun is None else [begun])
        return bool(found)

    eventually(has_begun)
    return found[0]


def refused(ground: Ground, parent: Running, restore_time: datetime | str) -> Invalid:
    with pytest.raises(Invalid) as error:
        fork_service(ground.plane, ground.project_id, parent.service.id, at(restore_time))
    return error.value


def test_exactly_on_a_commit(ground: Ground, ledger: Ledger) -> None:
    assert rows_at(ground, ledger.running, ledger.times[1]) == [1, 2]


def test_between_two_commits(ground: Ground, ledger: Ledger) -> None:
    assert rows_at(ground, ledger.running, ledger.times[0] + (ledger.times[1] - ledger.times[0]) / 2) == [1]


@pytest.mark.parametrize(("offset", "held"), [(-MICROSECOND, [1]), (MICROSECOND, [1, 2])], ids=["before", "after"])
def test_one_microsecond_around_a_commit(ground: Ground, ledger: Ledger, offset: timedelta, held: list[int]) -> None:
    assert rows_at(ground, ledger.running, ledger.times[1] + offset) == held


def test_before_the_oldest_restore_point(ground: Ground, ledger: Ledger) -> None:
    error = refused(ground, ledger.running, earliest(ground, ledger.running) - MICROSECOND)
    assert error.code == "OUTSIDE_RESTORE_WINDOW"
    assert rfc3339(earliest(ground, ledger.running)) in error.message


def test_on_the_oldest_restore_point(ground: Ground) -> None:
    parent = ground.create("young")
    begun = earliest(ground, parent)
    make_ledger(parent)
    fork = ground.fork(parent, at(begun))
    with fork.connect() as connection:
        assert connection.execute("SELECT to_regclass('ledger')").fetchone() == (None,)
    for running in (fork, parent):
        ground.delete(running)


def test_after_the_last_commit_of_an_idle_parent(ground: Ground, ledger: Ledger) -> None:
    assert rows_at(ground, ledger.running, datetime.now(UTC)) == [1, 2, 3]


def test_after_the_last_commit_of_a_paused_parent(ground: Ground, parent: Running) -> None:
    append(parent, 1, 2)
    paused = ground.pause(parent)
    assert rows_at(ground, paused, datetime.now(UTC)) == [1, 2]
    assert status_of(ground.look(paused)) is Status.PAUSED


def test_a_target_before_the_pause_of_a_paused_parent(ground: Ground, parent: Running) -> None:
    times = append(parent, 1, 2, 3)
    assert rows_at(ground, ground.pause(parent), times[0]) == [1]


def test_after_the_last_commit_of_a_parent_whose_server_is_dead(ground: Ground, parent: Running) -> None:
    append(parent, 1, 2)
    assert postgres.kill(ground.backend.instances.paths(parent.service.id), 10)
    assert rows_at(ground, parent, datetime.now(UTC)) == [1, 2]


def test_a_target_before_the_death_of_the_parents_server(ground: Ground, parent: Running) -> None:
    times = append(parent, 1, 2, 3)
    assert postgres.kill(ground.backend.instances.paths(parent.service.id), 10)
    assert rows_at(ground, parent, times[1]) == [1, 2]


def test_a_target_in_the_future_is_refused(ground: Ground, ledger: Ledger) -> None:
    assert refused(ground, ledger.running, datetime.now(UTC) + timedelta(minutes=1)).code == "TARGET_TIME_IN_FUTURE"


def test_a_target_in_utc_with_a_z(ground: Ground, ledger: Ledger) -> None:
    assert rows_at(ground, ledger.running, f"{ledger.times[1]:%Y-%m-%dT%H:%M:%S.%f}Z") == [1, 2]


def test_a_target_with_the_offset_plus_05_30(ground: Ground, ledger: Ledger) -> None:
    there = ledger.times[1].astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert there.isoformat().endswith("+05:30")
    assert rows_at(ground, ledger.running, there.isoformat()) == [1, 2]


def test_across_a_dst_change(ground: Ground, ledger: Ledger) -> None:
    """The same clock reading with the offsets before and after a change means times an hour apart."""
    winter = ledger.times[1].astimezone(timezone(timedelta(hours=1)))
    assert rows_at(ground, ledger.running, winter.isoformat()) == [1, 2]
    summer = winter.replace(tzinfo=timezone(timedelta(hours=2)))
    assert refused(ground, ledger.running, summer.isoformat()).code == "OUTSIDE_RESTORE_WINDOW"


def test_a_target_without_an_offset_is_refused(ground: Ground, ledger: Ledger) -> None:
    error = refused(ground, ledger.running, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}")
    assert error.code == "INVALID_TARGET_TIME"
    assert "offset" in error.details


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-12:00"])
def test_a_target_in_the_year_9999_is_refused(ground: Ground, ledger: Ledger, text: str) -> None:
    assert refused(ground, ledger.running, text).code in ("TARGET_TIME_IN_FUTURE", "INVALID_TARGET_TIME")


def test_across_a_pause_and_resume(ground: Ground, parent: Running) -> None:
    before = append(parent, 1)[0]
    ground.pause(parent)
    asleep = datetime.now(UTC)
    ground.resume(parent)
    after = append(parent, 2)[0]
    append(parent, 3)
    assert rows_at(ground, parent, before) == [1]
    assert rows_at(ground, parent, asleep) == [1]
    assert rows_at(ground, parent, after) == [1, 2]


def test_across_a_resize(ground: Ground, parent: Running) -> None:
    before = append(parent, 1)[0]
    resize_service(ground.plane, ground.project_id, parent.service.id, "2000", "8")
    eventually(lambda: ground.look(parent).activity is None)
    after = append(parent, 2)[0]
    resize_service(ground.plane, ground.project_id, parent.service.id, "500", "2")
    eventually(lambda: ground.look(parent).activity is None)
    append(parent, 3)
    assert rows_at(ground, parent, before) == [1]
    assert rows_at(ground, parent, after) == [1, 2]


def test_a_fork_can_be_restored_from_its_first_second(ground: Ground, parent: Running) -> None:
    append(parent, 1)
    fork = ground.fork(parent, at(datetime.now(UTC)))
    earliest(ground, fork)
    times = append(fork, 2, 3)
    assert rows_at(ground, fork, times[0]) == [1, 2]
    ground.delete(fork)


def test_a_target_before_the_creation_of_a_fork_is_refused_and_names_its_parent(
    ground: Ground, parent: Running
) -> None:
    times = append(parent, 1, 2)
    fork = ground.fork(parent, at(times[1]))
    error = refused(ground, fork, times[0])
    assert "was created" in error.message
    assert parent.service.id in error.details
    assert rows_at(ground, parent, times[0]) == [1]
    ground.delete(fork)
