"""What an operation's steps are called for people, and how far it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ramet.model.status import OperationStatus
from ramet.store.history import Past

TITLES: Mapping[str, str] = {
    "create": "Create",
    "fork": "Fork",
    "stop": "Pause",
    "start": "Resume",
    "restart": "Restart",
    "resize": "Resize",
    "delete": "Delete",
    "snapshot": "Snapshot",
    "delete_snapshot": "Delete a snapshot",
    "pooler": "Pooler",
    "prepare": "Prepare the newest snapshot",
    "aftercare": "Examine the fork",
    "drill": "Prove a restore",
    "optimize": "Optimize",
    "create_replicas": "Create replicas",
    "resize_replicas": "Resize replicas",
    "restart_replicas": "Restart replicas",
    "delete_replicas": "Delete replicas",
    "replica_pooler": "Pooler of replicas",
}
STEPS: Mapping[str, Mapping[str, str]] = {
    "create": {
        "initialize": "Make an empty cluster",
        "boot": "Start the server",
        "secure": "Give it credentials",
        "snapshot": "Take the first snapshot",
        "publish": "Open the endpoint",
    },
    "fork": {
        "capture": "Capture the parent's data",
        "recover": "Recover to the moment",
        "boot": "Start the server",
        "secure": "Give it credentials of its own",
        "publish": "Open the endpoint",
    },
}
_STATES = {"DONE": "done", "UNDONE": "undone", "ABANDONED": "failed", "RETRIED": "retried"}


@dataclass(frozen=True)
class Step:
    """A step of an operation. `state`: done, active, waiting, undone, retried or failed; `note`: progress or error."""

    title: str
    state: str
    seconds: float | None = None
    note: str = ""


def steps_of(past: Past) -> Sequence[Step]:
    """Return the steps of an operation, those to come too where they are known beforehand."""
    names = dict.fromkeys(STEPS.get(past.procedure, {}))
    names.update(dict.fromkeys(event.step for event in past.events))
    if past.status is OperationStatus.RUNNING:
        names[past.step] = None
    return [_step(past, name) for name in names]


def grouped(listed: Sequence[Past], most: int | None = None) -> Sequence[tuple[Past, int]]:
    """Return operations, newest first, with how many equal ones that went well stand together before each."""
    groups: list[tuple[Past, int]] = []
    for past in listed:
        last, more = groups[-1] if groups else (None, 0)
        if last is not None and _went_well(last, last.procedure) and _went_well(past, last.procedure):
            groups[-1] = (last, more + 1)
        else:
            groups.append((past, 0))
    return groups[:most]


def _went_well(past: Past, procedure: str) -> bool:
    return past.procedure == procedure and past.status is OperationStatus.SUCCEEDED


def title_of(past: Past) -> str:
    """Return an operation's name for people."""
    return TITLES.get(past.procedure, past.procedure.replace("_", " ").capitalize())


def seconds_of(past: Past) -> float | None:
    """Return how long an operation took; None while it is under way."""
    return None if past.finished_at is None else (past.finished_at - past.created_at).total_seconds()


def _step(past: Past, name: str) -> Step:
    title = STEPS.get(past.procedure, {}).get(name, name.replace("_", " ").capitalize())
    own = [event for event in past.events if event.step == name]
    last = next((event for event in reversed(own) if event.outcome == "ABANDONED"), own[-1] if own else None)
    error = "" if last is None else last.error or ""
    if past.status is OperationStatus.RUNNING and name == past.step:
        return Step(title, "active", None, past.progress or error)
    if last is None:
        return Step(title, "waiting")
    return Step(title, _STATES.get(last.outcome, "failed"), last.seconds, error)
