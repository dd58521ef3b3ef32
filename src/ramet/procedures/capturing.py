"""Capturing the parent: what the procedures share that copy a service, as of now, of a snapshot or of a past time.

Each may be repeated until the copy is complete.
"""

from typing import Any

from msgspec.structs import replace

from ramet.backends.interface.values import Capture, Server
from ramet.errors import Failed
from ramet.model.fork import ForkStrategy
from ramet.model.procedures import ProcedureName
from ramet.model.snapshot import Snapshot, base_for, newest
from ramet.operations.procedure import Wait, Work
from ramet.procedures.servers import PATIENCE_SECONDS, Tools, await_others, source_of
from ramet.procedures.state import ForkState, RecoveryState
from ramet.store import snapshots
from ramet.store.operations import is_running


def capture_parent(
    tools: Tools, work: Work[ForkState], server: Server, neutralize: bool | None = None
) -> tuple[Capture, Snapshot | None] | Wait:
    """Copy what was asked for into the volume of `server`; return the base snapshot with it, None without one.

    `neutralize` says how the copy will be secured as soon as it runs; None: not at once.
    """
    state = work.state
    if state.base_backup_id is not None:
        archived = capture_archived(tools, state, state.parent_id, server)
        return archived if isinstance(archived, Wait) else (archived, None)
    base = _base(tools, work)
    if isinstance(base, Wait):
        return base
    source = source_of(tools.service(state.parent_id), base.id if base else None, state.target, neutralize=neutralize)
    progress = tools.backend.copies.make(server, source)
    if progress is not None:
        return Wait(0.2, progress)
    captured = tools.backend.restore.capture(server, source)
    return Wait(0.1, "the parent's server is not serving") if captured is None else (captured, base)


def capture_archived(tools: Tools, state: RecoveryState, parent_id: str, server: Server) -> Capture | Wait:
    """Copy what the off-host archive has of a service into the volume of `server`, which is of the version there."""
    parent = tools.service(parent_id)
    named = state.archive_name or parent.archived_as  # the parent may have been upgraded since
    parent = replace(parent, archived_as=named, pg_major=server.pg_major)
    source = source_of(parent, None, state.target, state.base_backup_id)
    progress = tools.backend.archive.fetch(server, source, PATIENCE_SECONDS)
    if progress is not None:
        return Wait(0, progress)
    return tools.backend.restore.capture(server, source) or Wait(0.1)


def _base(tools: Tools, work: Work[ForkState]) -> Snapshot | Wait | None:
    """Return the snapshot to start from; None for a fork of now; a Wait while it is being taken.

    Raises Failed when the one that was chosen is gone, and no earlier one leads to the target.
    """
    if work.state.strategy is ForkStrategy.NOW:
        return None
    parent_id, wanted, target = work.state.parent_id, work.state.base_id, work.state.target
    with tools.store.read() as tx:
        is_on_its_way = is_running(tx, parent_id, ProcedureName.SNAPSHOT)
        known = snapshots.list_snapshots(tx, parent_id)
    base = newest(known) if wanted is None else next((one for one in known if one.id == wanted), None)
    if base is None and target is not None:
        base = base_for(known, target)
    if base is None and not is_on_its_way:
        named = "The first snapshot" if wanted is None else f"Snapshot {wanted}"
        raise Failed(
            "SNAPSHOT_LOST",
            f"{named} of service {parent_id} could not be taken, or is gone",
            "Look at its operations, then fork once more.",
        )
    return base or await_others(tools, work, "a snapshot of the parent", 0.02)


def report_of(state: ForkState) -> dict[str, Any]:
    """Return what is stored with a service that is a copy, as its fork report."""
    return {"capture": state.captured().facts, "recovery": state.recovery, "neutralised": state.neutralised}
