"""Forks of forks, other sizes, and parents that go before their forks."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from prove.ground import Ground, Running
from ramet.control.requests import ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.model.timestamps import rfc3339
from tests.proofs.ledgers import append, at, has_ledger, make_ledger, rows, rows_at, rows_until
from tests.proofs.test_pitr_targets import earliest

NOW = ForkRequest(ForkStrategy.NOW)
DEPTH = 6


@pytest.fixture(scope="module")
def sized_parent(ground: Ground) -> Iterator[Running]:
    """A service between the sizes that it is forked to."""
    running = ground.create("sized", cpu_millis="1000", memory_gbs="4")
    earliest(ground, running)
    make_ledger(running)
    yield running
    ground.delete(running)


def test_forks_of_forks_to_depth_6_each_hold_their_line(ground: Ground, parent: Running) -> None:
    line = [parent]
    append(parent, 0)
    for number in range(1, DEPTH + 1):
        line.append(ground.fork(line[-1], NOW))
        append(line[-1], number)
    assert [rows(one) for one in line] == [list(range(number + 1)) for number in range(DEPTH + 1)]
    middle = line[DEPTH // 2]
    earliest(ground, middle)
    restore_time = append(middle, 100)[0]
    append(middle, 101)
    assert rows_at(ground, middle, restore_time) == [*range(DEPTH // 2 + 1), 100]
    for one in line[1:]:
        ground.delete(one)


@pytest.mark.parametrize("order", ["oldest first", "youngest first"])
def test_a_parent_may_be_deleted_while_forks_of_it_live(ground: Ground, order: str) -> None:
    root = ground.create("root")
    make_ledger(root)
    append(root, 1)
    child = ground.fork(root, NOW)
    grandchild = ground.fork(child, NOW)
    left = [root, child, grandchild]
    while left:
        ground.delete(left.pop(0 if order == "oldest first" else -1))
        for one in left:
            assert rows(one) == [1]
            append(one, len(rows(one)) + 1)
            with one.connect() as connection:
                connection.execute("DELETE FROM ledger WHERE n > 1")


def snapshot_time(fork: Running) -> datetime:
    """Return when the snapshot was taken that a fork says it grew from."""
    origin = fork.service.origin
    assert origin is not None
    assert origin.snapshot_id is not None
    assert origin.data_time is not None
    return origin.data_time


@pytest.mark.parametrize("size", [("500", "2"), ("2000", "8")], ids=["smaller", "larger"])
@pytest.mark.parametrize("strategy", list(ForkStrategy))
def test_a_second_size(ground: Ground, sized_parent: Running, strategy: ForkStrategy, size: tuple[str, str]) -> None:
    restore_time = append(sized_parent, len(rows(sized_parent)) + 1)[0]
    target_time = rfc3339(restore_time) if strategy is ForkStrategy.PITR else None
    cpu_millis, memory_gbs = size
    fork = ground.fork(
        sized_parent,
        ForkRequest(strategy, cpu_millis=cpu_millis, memory_gbs=memory_gbs, target_time=target_time),
    )
    assert (fork.service.size.cpu_millis, fork.service.size.memory_gbs) == (int(cpu_millis), int(memory_gbs))
    # Which snapshot is the last one depends on the WAL that the tests before this one have made.
    reaches_to = snapshot_time(fork) if strategy is ForkStrategy.LAST_SNAPSHOT else restore_time
    assert (rows(fork) if has_ledger(fork) else []) == rows_until(sized_parent, reaches_to)
    ground.delete(fork)


def test_two_forks_of_one_snapshot_are_equal_row_by_row(ground: Ground, parent: Running) -> None:
    append(parent, 1, 2, 3)
    one = ground.fork(parent, at(datetime.now(UTC)))
    earliest(ground, one)
    twins = [ground.fork(one, ForkRequest(ForkStrategy.LAST_SNAPSHOT)) for _ in range(2)]
    append(one, 4)
    assert [rows(twin) for twin in twins] == [[1, 2, 3], [1, 2, 3]]
    for running in (*twins, one):
        ground.delete(running)
