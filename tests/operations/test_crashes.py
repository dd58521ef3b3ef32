"""Whatever crashes when: each step counts once, and a failed operation leaves nothing behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.errors import Failed
from ramet.model.status import OperationStatus
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work
from ramet.operations.worker import Worker
from ramet.store.database import Store
from ramet.store.tables import operation
from tests.operations.effects import STEPS, Host, counting, found, history, is_over, make_table, submitted, written


class Crash(BaseException):
    """The process dies here: nothing catches it."""


class Fuse:
    """Crashes at chosen calls."""

    def __init__(self, calls: frozenset[int]) -> None:
        self._calls = calls
        self._clock = count()

    def check(self) -> None:
        if next(self._clock) in self._calls:
            raise Crash


class CrashingStore(Store):
    """Crashes before or after commits of write transactions."""

    fuse: Fuse | None = None

    @contextmanager
    def write(self, *, durable: bool = True, early: bool = False, patient: bool = False) -> Iterator[sa.Connection]:
        with super().write(durable=durable, early=early, patient=patient) as tx:
            yield tx
            if self.fuse is not None:
                self.fuse.check()
        if self.fuse is not None:
            self.fuse.check()


@pytest.fixture(scope="module")
def crashing_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashingStore]:
    path: Path = tmp_path_factory.mktemp("crashes")
    store = CrashingStore.open(f"sqlite:///{path}/ramet.db")
    assert isinstance(store, CrashingStore)
    make_table(store)
    yield store
    store.close()


def fragile(host: Host, fuse: Fuse, failing: str | None, waits: int) -> Procedure:
    """Return the counting procedure with crashes before and after each effect, and perhaps a step that fails."""
    sound = counting(host)
    waited: dict[tuple[str, str], int] = {}

    def step(work: Work[Any]) -> Outcome:
        fuse.check()
        host.mark(work)
        fuse.check()
        key = (work.operation_id, work.step)
        waited[key] = waited.get(key, 0) + 1
        if waited[key] <= waits:
            return Wait(0, str(waited[key]))
        if work.step == failing:
            raise Failed("INJECTED", "Injected")
        outcome = sound.steps[work.step](work)
        assert isinstance(outcome, (Next, Done))
        return outcome

    def undo(work: Work[Any]) -> None:
        fuse.check()
        host.unmark(work)
        fuse.check()

    return counting(host, dict.fromkeys(STEPS, step), dict.fromkeys(STEPS, undo))


@settings(max_examples=60)
@given(
    calls=st.frozensets(st.integers(0, 60), max_size=6),
    failing=st.sampled_from([None, *STEPS]),
    waits=st.integers(0, 2),
    operations=st.integers(1, 3),
)
@pytest.mark.slow
def test_crashes_at_any_time_do_not_change_the_result(
    crashing_store: CrashingStore, calls: frozenset[int], failing: str | None, waits: int, operations: int
) -> None:
    store, host, fuse = crashing_store, Host(), Fuse(calls)
    store.fuse = None
    ids = [submitted(store) for _ in range(operations)]
    procedure = fragile(host, fuse, failing, waits)
    for _ in range(len(calls) + 1):
        store.fuse = fuse
        try:
            Worker(store, [procedure]).run_until_idle()
        except Crash:
            continue
        finally:
            store.fuse = None
            expire_leases(store)
    for operation_id in ids:
        assert is_over(store, operation_id)
        check_end(store, host, operation_id, failing)


def expire_leases(store: Store) -> None:
    with store.write() as tx:
        tx.execute(operation.update().values(run_at=0.0))


def check_end(store: Store, host: Host, operation_id: str, failing: str | None) -> None:
    marks = [step for marked, step in host.marks if marked == operation_id]
    if failing is None:
        assert found(store, operation_id).status is OperationStatus.SUCCEEDED
        assert written(store, operation_id) == list(STEPS)
        assert marks == list(STEPS)
        assert history(store, operation_id) == [(step, "DONE") for step in STEPS]
        return
    before = list(STEPS[: STEPS.index(failing)])
    assert found(store, operation_id).status is OperationStatus.FAILED
    assert written(store, operation_id) == [*before, "undoing: Injected", "failed: Injected"]
    assert marks == []
