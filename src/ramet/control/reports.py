"""What a fork is made of: its report, with the seconds of each step."""

from dataclasses import dataclass
from typing import Any

from ramet.control.control import Control
from ramet.errors import NotFound, WrongState
from ramet.model.service import Origin, Service, status_of
from ramet.model.snapshot import Snapshot
from ramet.store import operations, snapshots


@dataclass(frozen=True)
class ForkReport:
    """A READY fork, where it came from, and what was found on the way. `base` is None once it was let go of."""

    service: Service
    origin: Origin
    facts: dict[str, Any]
    base: Snapshot | None
    step_seconds: dict[str, float]


def fork_report(control: Control, project_id: str, service_id: str) -> ForkReport:
    """Return the report of a fork. Raises NotFound for what is no fork, WrongState for one that is not made yet."""
    with control.store.read() as tx:
        service = control.find(tx, project_id, service_id)
        origin = service.origin
        if origin is None:
            raise NotFound("NO_FORK", f"Service {service.id} is no fork, so it has no fork report.")
        if service.report is None:
            raise WrongState(
                "INVALID_STATE",
                f"Service {service.id} is {status_of(service)}; its fork report is written when it becomes READY.",
                service.failure or "Wait until it is READY, then try again.",
            )
        known = snapshots.list_snapshots(tx, origin.service_id)
        made = [one for one in operations.of_subject(tx, service.id) if one.procedure == "fork"]
        events = operations.events(tx, made[-1].id) if made else []
    base = next((snapshot for snapshot in known if snapshot.id == origin.snapshot_id), None)
    seconds: dict[str, float] = {}
    for event in events:
        if event.outcome == "DONE":  # more than once where a server was killed and started again
            seconds[event.step] = seconds.get(event.step, 0.0) + event.seconds
    return ForkReport(service, origin, service.report, base, seconds)
