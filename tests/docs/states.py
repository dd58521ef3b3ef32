"""docs/states.md, made by doing: every procedure is run step by step over the memory backend, and its statuses noted.

`python -m tests.docs.states` writes the page; a test fails while it differs from what the code does.
"""

import functools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ramet.backends.memory.backend import MemoryBackend
from ramet.control.addresses import planned_moves, request_moves
from ramet.control.duties.addresses import move_services
from ramet.control.duties.health import Health
from ramet.control.high_availability import set_ha
from ramet.control.plane import utc_now
from ramet.control.replication import set_wal_level
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.services import (
    create_service,
    delete_service,
    optimize_service,
    resize_service,
    start_service,
    stop_service,
)
from ramet.errors import Failed
from ramet.model.fork import ForkStrategy
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.model.wal_level import WalLevel
from ramet.operations.procedure import Outcome, Procedure, Step, Undo, Work
from ramet.operations.worker import Worker
from ramet.store import services
from tests.recovery.losses import lose_and_recover
from tests.worlds import World, fork_service, make_world

PAGE = Path(__file__).parents[2] / "docs" / "states.md"
NOWHERE = "[*]"

_OPENING = """\
# The statuses of a service, and how it moves between them

Made by `python -m tests.docs.states` from what the code does: each procedure is run step by step, and once more for
each of its steps with a failure there. `status_of` in `model/service.py` is the only place that computes a status.

- QUEUED: accepted, and no step has begun. CONFIGURING: it is being made. READY: the endpoint accepts its password.
- PAUSING, PAUSED, RESUMING: its server is stopped on demand; data, snapshots and endpoint stay.
- UPGRADING: it gets another size, `wal_level` or other standbys, and serves until a restart is due, if one is.
- OPTIMIZING: it serves, and gets fresh statistics.
- UNSTABLE: it should serve and does not, or it could not be made; `metadata.status_reason` says why.
- DELETING: it is being removed. DELETED is what its row says afterwards; clients get 404 ([rule 7](compatibility.md)).

"""


@dataclass
class Journal:
    """The moves that were seen: from where, by which procedure, to where."""

    moves: set[tuple[str, str, str]] = field(default_factory=set)
    last: str = NOWHERE
    label: str = ""

    def note(self, status: str) -> None:
        if status != self.last:
            self.moves.add((self.last, self.label, status))
            self.last = status


Look = Callable[[], None]
NOW = ForkRequest(ForkStrategy.NOW)


def _resize(world: World, service_id: str) -> str:
    return resize_service(world.plane, world.project.id, service_id, "1000", "4").id


def _set_standbys(world: World, service_id: str) -> str:
    world.backend.has_standbys = True
    return set_ha(world.plane, world.project.id, service_id, 1).id


def _set_address(world: World, service_id: str) -> str:
    request_moves(world.store, planned_moves(world.store, "db.example.com", lambda _major: True))
    move_services(world.plane)
    return service_id


def _crash(world: World, service_id: str) -> str:
    world.backend.crash(service_id)
    world.health.inspect()
    return service_id


Submit = Callable[[World, str], str]
VERBS: dict[str, tuple[Status | None, Submit]] = {
    "create": (None, lambda w, _: create_service(w.plane, w.project.id, CreateRequest("new")).service.id),
    "fork": (None, lambda w, parent: fork_service(w.plane, w.project.id, parent, NOW).service.id),
    "recover": (None, lose_and_recover),
    "stop": (Status.READY, lambda w, service: stop_service(w.plane, w.project.id, service).id),
    "start": (Status.PAUSED, lambda w, service: start_service(w.plane, w.project.id, service).id),
    "resize": (Status.READY, _resize),
    "set_wal_level": (
        Status.READY,
        lambda w, service: set_wal_level(w.plane, w.project.id, service, WalLevel.LOGICAL).id,
    ),
    "set_ha": (Status.READY, _set_standbys),
    "set_address": (Status.READY, _set_address),
    "optimize": (Status.READY, lambda w, service: optimize_service(w.plane, w.project.id, service).id),
    "restart": (Status.READY, _crash),
    "delete": (Status.READY, lambda w, service: delete_service(w.plane, w.project.id, service).id),
}


@functools.cache
def moves() -> set[tuple[str, str, str]]:
    """Return every move that the procedures make, with and without a failure at each of their steps."""
    journal = Journal()
    cases: list[tuple[str, str | None, Status | None]] = [
        (verb, None, begin) for verb, (begin, _submit) in VERBS.items()
    ]
    cases += [(verb, step, begin) for verb, (begin, _) in VERBS.items() for step in _steps_of(verb)]
    cases += [("resize", None, Status.PAUSED), ("delete", None, Status.PAUSED)]
    for verb, failing, begin in cases:
        with tempfile.TemporaryDirectory() as directory:
            _play(Path(directory), journal, verb, failing, begin)
    return journal.moves


def _steps_of(verb: str) -> list[str]:
    with tempfile.TemporaryDirectory() as directory:
        world = make_world(Path(directory), MemoryBackend())
        (procedure,) = [one for one in world.procedures if one.name == verb]
        world.store.close()
        return list(procedure.steps)


def _play(directory: Path, journal: Journal, verb: str, failing: str | None, begin: Status | None) -> None:
    world = make_world(directory, MemoryBackend())
    service_id = world.create().id
    if begin is Status.PAUSED:
        stop_service(world.plane, world.project.id, service_id)
        world.worker.run_until_idle()
    journal.last, journal.label = NOWHERE if begin is None else begin.value, verb
    subject = VERBS[verb][1](world, service_id)

    def look() -> None:
        with world.store.read() as tx:
            found = services.get_service(tx, subject)
        assert found is not None
        journal.note(status_of(found))

    look()

    def fail() -> None:
        journal.label = f"{verb} fails"
        raise Failed("INJECTED", f"Injected at {failing}")

    watched = [_watched(one, look, fail, failing) if one.name == verb else one for one in world.procedures]
    Worker(world.store, watched).run_until_idle()
    look()
    journal.label = "observer"
    Health(replace(world.plane, clock=lambda: utc_now() + timedelta(minutes=5))).inspect()
    look()
    Worker(world.store, world.procedures).run_until_idle()
    look()
    world.store.close()


def _watched(procedure: Procedure, look: Look, fail: Look, failing: str | None) -> Procedure:
    def step(name: str, run: Step) -> Step:
        def watched(work: Work[Any]) -> Outcome:
            look()
            if name == failing:
                fail()
            return run(work)

        return watched

    def undo(run: Undo) -> Undo:
        def watched(work: Work[Any]) -> None:
            look()
            run(work)

        return watched

    return replace(
        procedure,
        steps={name: step(name, run) for name, run in procedure.steps.items()},
        undo={name: undo(run) for name, run in procedure.undo.items()},
    )


def page() -> str:
    """Return the page."""
    found = sorted(moves())
    diagram = "\n".join(f"    {begin} --> {end}: {label}" for begin, label, end in _merged(found))
    rows = "\n".join(f"| {begin} | {label} | {end} |" for begin, label, end in found)
    table = f"| from | by | to |\n|---|---|---|\n{rows.replace(NOWHERE, '(nothing)')}"
    return f"{_OPENING}```mermaid\nstateDiagram-v2\n{diagram}\n```\n\n{table}\n"


def _merged(found: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    labels: dict[tuple[str, str], list[str]] = {}
    for begin, label, end in found:
        labels.setdefault((begin, end), []).append(label)
    return [(begin, ", ".join(names), end) for (begin, end), names in labels.items()]


if __name__ == "__main__":
    PAGE.write_text(page())
