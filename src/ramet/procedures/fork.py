"""Fork a service.

    step       leaves behind                              undo
    capture    the fork's volume, free of its parent      destroy
    recover    the wanted state, cleanly stopped          (destroy)
    boot       a server, closed to clients                (destroy)
    secure     credentials of its own, quieted            (destroy)
    publish    an open endpoint: READY                    -

Its own restore window is opened by a snapshot that is submitted with READY.

The parent is held from acceptance until `capture` is recorded: nothing stops, starts,
trims or deletes it meanwhile. A server that is killed before it is open is booted again.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ramet.backends.interface.values import Source
from ramet.errors import Failed
from ramet.model.fork import ForkStrategy
from ramet.model.snapshot import Snapshot, SnapshotKind, base_for, newest
from ramet.operations.procedure import Done, Next, Outcome, Procedure, Wait, Work, submit
from ramet.procedures import prepare
from ramet.procedures.servers import (
    Tools,
    boot,
    capture_of,
    finish,
    let_go,
    outliving_kills,
    recover,
    server_of,
    stored,
    submit_preparation,
    submit_snapshot,
)
from ramet.store import services, snapshots
from ramet.store.operations import under_way


@dataclass(frozen=True)
class Fork:
    """The steps of `fork`."""

    tools: Tools

    def capture(self, work: Work) -> Outcome:
        base = self._base(work)
        if isinstance(base, Wait):
            return base
        captured = self.tools.backend.restore.capture(self.tools.server(work), _source(self.tools, work, base))
        if captured is None:
            return Wait(0.1, "the parent's server is not serving")

        def record(tx: sa.Connection) -> None:
            let_go(tx, work)
            if base is not None and work.state["target"] is None:
                services.update_service(tx, work.subject, origin_snapshot_id=base.id, data_time=base.taken_at)

        return Next("recover", {"capture": stored(captured)}, changes=record)

    def _base(self, work: Work) -> Snapshot | Wait | None:
        """Return the snapshot to grow from; None for a fork of now; a Wait while it is being taken.

        Raises Failed when the one that was chosen is gone, and no earlier one leads to the target.
        """
        if work.state["strategy"] == ForkStrategy.NOW:
            return None
        parent_id, wanted, target = work.state["parent_id"], work.state["base_id"], work.state["target"]
        with self.tools.store.read() as tx:
            is_on_its_way = under_way(tx, parent_id, "snapshot")
            known = snapshots.list_snapshots(tx, parent_id)
        base = newest(known) if wanted is None else next((one for one in known if one.id == wanted), None)
        if base is None and target is not None:
            base = base_for(known, datetime.fromisoformat(target))
        if base is None and wanted is not None and not is_on_its_way:
            raise Failed(
                "SNAPSHOT_LOST",
                f"Snapshot {wanted} of service {parent_id} could not be taken, or is gone",
                "Look at its operations, then fork once more.",
            )
        return base or Wait(0.02, "a snapshot of the parent")

    def recover(self, work: Work) -> Outcome:
        recovered = recover(self.tools, work, self.tools.server(work))
        return Next("boot", {"recovery": recovered}) if isinstance(recovered, dict) else recovered

    def boot_server(self, work: Work) -> Outcome:
        return boot(self.tools, work, first=True) or Next("secure")

    def secure(self, work: Work) -> Outcome:
        server, secure, quiet = self.tools.server(work), self.tools.backend.servers.secure, work.state["quiet"]
        found = outliving_kills(work, lambda: secure(server, is_new=False, neutralize=quiet), again="boot")
        if isinstance(found, Next):
            return found
        return Next("publish", {"neutralised": found | work.state.get("neutralised", {})})

    def publish(self, work: Work) -> Outcome:
        server = self.tools.server(work)
        killed = outliving_kills(work, lambda: self.tools.backend.servers.open(server), again="boot")
        if killed is not None:
            return killed

        def record(tx: sa.Connection) -> None:
            finish(tx, work, ready_at=self.tools.clock(), report=_report(work))
            submit_snapshot(tx, work.subject, SnapshotKind.INITIAL)
            submit(tx, "aftercare", "examine", work.subject, {})
            _replenish(tx, work)

        return Done(changes=record)

    def destroy(self, work: Work) -> None:
        self.tools.backend.servers.destroy(work.subject)

    def failed(self, tx: sa.Connection, work: Work, error: str) -> None:
        finish(tx, work, failed_at=self.tools.clock(), failure=error)


def procedure(tools: Tools) -> Procedure:
    """Return the procedure `fork`."""
    steps = Fork(tools)
    return Procedure(
        name="fork",
        first="capture",
        steps={
            "capture": steps.capture,
            "recover": steps.recover,
            "boot": steps.boot_server,
            "secure": steps.secure,
            "publish": steps.publish,
        },
        undo={"capture": steps.destroy},
        on_undoing=let_go,
        on_failed=steps.failed,
    )


def _source(tools: Tools, work: Work, base: Snapshot | None) -> Source:
    parent = tools.service(work.state["parent_id"])
    target = work.state["target"]
    return Source(
        parent=server_of(parent),
        paused=parent.paused,
        snapshot_id=None if base is None else base.id,
        target=None if target is None else datetime.fromisoformat(target),
    )


def _replenish(tx: sa.Connection, work: Work) -> None:
    """Let the parent's newest snapshot be made as quick to fork as it can be, for the next fork."""
    parent_id = work.state["parent_id"]
    if work.state["target"] is not None or under_way(tx, parent_id, prepare.NAME):
        return
    base = newest(snapshots.list_snapshots(tx, parent_id))
    if base is not None:
        submit_preparation(tx, parent_id, base.id)


def _report(work: Work) -> dict[str, Any]:
    captured = capture_of(work)
    return {
        "capture": {} if captured is None else captured.facts,
        "recovery": work.state["recovery"],
        "neutralised": work.state["neutralised"],
    }
