"""Remove what the restore window of a service no longer needs, where no snapshot is taken that would do it.

step     leaves behind                                            undo
retire   a hold on the service, and no rows of snapshots that     -
         no restore point needs
sweep    no files of them, and no WAL older than the window       -

It leaves a service alone that is held or changed: a fork may be using its snapshots. `sweep` gives way to what wants to
change the service. What it has not removed at its end is in its state, and the next one removes it.
"""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.backend import Backend
from ramet.model.archive import awaits_archive
from ramet.model.procedures import ProcedureName
from ramet.model.restore_window import RestoreSettings, is_sparing, settings_of
from ramet.model.service import Service, is_standby
from ramet.model.snapshot import Snapshot, retired, rollable, worth_preparing
from ramet.operations.procedure import Done, Next, Outcome, Work
from ramet.procedures.servers import Steps, Tools, release_holds
from ramet.procedures.state import ExpiryState
from ramet.store import services, snapshots


class Expire(Steps):
    """The steps of `expire`."""

    name = ProcedureName.EXPIRE

    def retire(self, work: Work[ExpiryState]) -> Outcome:
        with self.tools.store.read() as tx:
            known = snapshots.list_snapshots(tx, work.subject)
        ids = unneeded(self.tools, self.tools.service(work.subject), known)
        state = replace(work.state, retired=tuple(dict.fromkeys((*work.state.retired, *ids))))
        return Next("sweep", state, changes=lambda tx: self._hold(tx, work, ids))

    def _hold(self, tx: sa.Connection, work: Work[ExpiryState], ids: list[str]) -> None:
        """Hold the service and delete the rows of snapshots, unless the service is held or changed."""
        service = services.get_service(tx, work.subject, lock=True)
        is_changing = service is None or service.deleted_at is not None or service.activity is not None
        if not is_changing and not services.holders(tx, work.subject):
            services.add_hold(tx, work.subject, work.operation_id)
            snapshots.delete_unheld(tx, work.subject, ids, work.operation_id)

    def sweep(self, work: Work[ExpiryState]) -> Outcome:
        """Remove the files of one snapshot at a time: what wants to change the service waits for no other."""
        with self.tools.store.read() as tx:
            kept = snapshots.list_snapshots(tx, work.subject)
            is_held = work.operation_id in services.holders(tx, work.subject)
        if not is_held or self.tools.service(work.subject).activity is not None:
            return Done(changes=lambda tx: release_holds(tx, work))
        left = _without_rows(work.state.retired, kept)
        if left:
            self.tools.backend.restore.delete_snapshot(work.subject, left[0])
            return Next("sweep", replace(work.state, retired=tuple(left[1:])))
        done = ExpiryState(trimmed_to=_discard_wal(self.tools, work.subject, kept))
        return Done(done, lambda tx: release_holds(tx, work))


def unneeded(tools: Tools, service: Service, known: list[Snapshot]) -> list[str]:
    """Return the ids of the snapshots of a service that have expired by now."""
    usual, now = RestoreSettings(window_days=tools.window.days), (tools.retention_clock or tools.clock)()
    return [one.id for one in expired(service, known, usual, tools.backend.host.volume_type(), now)]


def rests(service: Service) -> bool:
    """Tell whether a service is paused or down; one that sleeps serves."""
    return (service.paused and not service.asleep) or service.down_reason is not None


def keeps_all(service: Service) -> bool:
    """Tell whether a service keeps what has expired while storage suffices: somebody may want the state of before."""
    following = service.following if is_standby(service) else None
    return rests(service) or (following is not None and following.receives_nothing)


def expired(
    service: Service, known: list[Snapshot], usual: RestoreSettings, volume_type: str, now: datetime
) -> list[Snapshot]:
    """Return the snapshots that no restore point of a service needs; `usual` holds where it has no own settings."""
    window = settings_of(service.settings, usual).window
    return retired(known, now, window, is_sparing=is_sparing(volume_type, service.settings))


def remove_files(tools: Tools, service_id: str, snapshot_ids: Collection[str]) -> None:
    """Remove the files of snapshots that have no row any more, and the WAL that no snapshot needs."""
    with tools.store.read() as tx:
        kept = snapshots.list_snapshots(tx, service_id)
    for snapshot_id in _without_rows(snapshot_ids, kept):
        tools.backend.restore.delete_snapshot(service_id, snapshot_id)
    _discard_wal(tools, service_id, kept)


def _without_rows(snapshot_ids: Collection[str], kept: list[Snapshot]) -> list[str]:
    """Return the snapshots that are not kept, whose files nobody needs."""
    present = {snapshot.id for snapshot in kept}
    return [each for each in snapshot_ids if each not in present]


def unprepare_older(tools: Tools, known: list[Snapshot]) -> None:
    """Remove the prepared copies of snapshots that are not likely to be copied next."""
    wanted = worth_preparing(known)
    for older in known:
        if older.id not in wanted:
            tools.backend.restore.discard_preparation(older.service_id, older.id)


def first_with_wal(backend: Backend, service: Service, known: list[Snapshot]) -> Snapshot | None:
    """Return the oldest snapshot that needs WAL, unless the off-host archive still has to get the WAL before it."""
    oldest = next(iter(rollable(known)), None)
    is_awaited = oldest is not None and backend.archive.url() is not None and awaits_archive(service, oldest.taken_at)
    return None if is_awaited else oldest


def _discard_wal(tools: Tools, service_id: str, kept: list[Snapshot]) -> str | None:
    """Remove the WAL that no snapshot needs; return the first one that needs WAL, None where the archive is awaited."""
    oldest = first_with_wal(tools.backend, tools.service(service_id), kept)
    if oldest is None:
        return None
    tools.backend.restore.discard_wal(service_id, oldest)
    return oldest.id
