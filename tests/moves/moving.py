"""Moves in memory: run to their end with other steps, or held before a step."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.moves.verbs import Move, get_move
from ramet.operations.procedure import Outcome, Procedure, Wait, Work
from ramet.operations.worker import Worker
from ramet.store.tables import hold, operation
from tests import procedure_laws as laws
from tests.moves.conftest import ROWS, Pair

Rewrite = Callable[[Procedure], Procedure]


def shown(pair: Pair, move_id: str) -> Move:
    return get_move(pair.here.plane, pair.here.project.id, pair.moved, move_id)


def run(pair: Pair, rewrite: Rewrite) -> Move:
    """Move a service with the procedure rewritten, and see that it is at one place, with its rows, and nothing else."""
    service = pair.service()
    move_id = pair.request(service)
    worker = Worker(pair.here.store, laws.rewritten(pair.here.procedures, "move", rewrite))
    while True:
        try:
            pair.work(worker)
            break
        except laws.Crash:
            with pair.here.store.write() as tx:
                tx.execute(operation.update().values(run_at=0.0))
    found, kept = shown(pair, move_id), pair.look()
    (place,) = pair.places()
    if place == "there":
        assert pair.rows_there() == ROWS
        assert (status_of(kept), kept.name) == (Status.PAUSED, found.kept_as)
    else:
        assert pair.copies() == []
        assert pair.here.backend.values(service.id) == ROWS
        assert (status_of(kept), kept.name) == (Status.READY, "shop")
    assert kept.activity is None
    assert pair.here.backend.volumes[service.id].copied_by is None
    with pair.here.store.read() as tx:
        assert not tx.execute(hold.select()).all()
    return found


def held_at(pair: Pair, step: str, **fields: object) -> tuple[str, list[bool]]:
    """Begin a move that goes no further than before a step, until the list is emptied."""
    blocked = [True]

    def rewrite(one: Procedure) -> Procedure:
        run_step = one.steps[step]

        def wait(work: Work[Any]) -> Outcome:
            return Wait(5.0, "held by the test") if blocked else run_step(work)

        return replace(one, steps={**one.steps, step: wait})

    move_id = pair.request(pair.service(), **fields)
    pair.here.worker = Worker(pair.here.store, laws.rewritten(pair.here.procedures, "move", rewrite))
    pair.work()
    return move_id, blocked


def go_on(pair: Pair, blocked: list[bool], seconds: float = 10.0) -> None:
    blocked.clear()
    with pair.here.store.write() as tx:
        tx.execute(operation.update().where(operation.c.worker.is_(None)).values(run_at=0.0))
    pair.here.worker.run_until_idle(limit_seconds=seconds)
