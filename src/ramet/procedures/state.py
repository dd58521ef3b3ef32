"""What the operations of each procedure store between their steps.

Rows of earlier releases are decoded by these types too: a field that they lack needs a default here, and a field that
goes from here stays in their rows, unread.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from ramet.backends.interface.sources import SourceAddress, SourceFacts
from ramet.backends.interface.values import Capture
from ramet.model.fork import ForkStrategy
from ramet.model.high_availability import Standbys
from ramet.model.procedures import ProcedureName
from ramet.model.size import Size
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.upgrade import Survey, UpgradeFacts
from ramet.model.wal_level import WalLevel
from ramet.operations.procedure import NoState

StoredSize = tuple[int | None, int | None]


class Restartable(Struct, frozen=True, kw_only=True):
    """Of a procedure that starts a server. `kills` counts how often that was killed before it was open."""

    kills: int = 0


class Interrupting(Restartable, frozen=True, kw_only=True):
    """Of a procedure that waits until the operation that it `interrupted` is over."""

    interrupted: str | None = None


class DeleteState(Interrupting, frozen=True, kw_only=True):
    """`reason` says why Ramet deletes the service by itself.

    `is_stopped`: its server has stopped, so that the archive can have all of it. `is_archived`: nothing more is sent.
    `left_in_source` says what stays in the database that it followed.
    """

    reason: str | None = None
    is_stopped: bool = False
    is_archived: bool = False
    left_in_source: str | None = None


class CreateState(Restartable, frozen=True, kw_only=True):
    """`is_based`: its first snapshot is recorded. `report` is what was found in a source, before and at the end."""

    snapshot_id: str
    is_based: bool = False
    report: dict[str, Any] = {}


class ImportState(CreateState, frozen=True, kw_only=True):
    """`sealed` is the source's password until it is in the volume. Without `owners` the admin owns all."""

    source: SourceAddress
    facts: SourceFacts
    owners: bool
    sealed: str | None


class FollowState(CreateState, frozen=True, kw_only=True):
    """`sealed` is the source's password until it is in the volume."""

    sealed: str | None
    size_bytes: int


class ReplaceCopyState(Interrupting, frozen=True, kw_only=True):
    """`timeline` and `redo_lsn` are where the new copy begins; it `continues` what the service has, or replaces it.

    `kept_id` is the snapshot of the old state, `snapshot_id` the first one of the new copy.
    """

    kept_id: str
    snapshot_id: str
    timeline: int
    redo_lsn: str
    continues: bool = False
    is_based: bool = False


class PromoteState(Interrupting, frozen=True, kw_only=True):
    """Until which LSN it waits, and with `drain` until the source was shut down; `taken_over` is what was changed.

    `takes_place`: it is the service of another Ramet that it follows, from then on.
    """

    lsn: str | None = None
    drain: bool = False
    quiet: bool = False
    takes_place: bool = False
    taken_over: dict[str, Any] = {}


class RecoveryState(Restartable, frozen=True, kw_only=True):
    """Of a procedure that recovers captured data. `base_id` is a snapshot; `target` is None for its end.

    `base_backup_id` is one in the off-host archive, from which all is taken then; `archive_name` is the name that the
    service had there.
    """

    base_id: str | None = None
    base_backup_id: str | None = None
    archive_name: str | None = None
    target: datetime | None = None
    capture: Capture | None = None
    recovery: dict[str, Any] | None = None

    def captured(self) -> Capture:
        """Return what an earlier step captured."""
        if self.capture is None:
            raise AssertionError("BUG: recovery comes after capture")
        return self.capture


class ForkState(RecoveryState, frozen=True, kw_only=True):
    """`quiet`: what acts on the outside world is disabled in the fork; `neutralised` is what that was."""

    parent_id: str
    strategy: ForkStrategy
    quiet: bool
    neutralised: dict[str, Any] = {}


class TryUpgradeState(ForkState, frozen=True, kw_only=True):
    """`keeps`: the trial remains as a service. `facts` were found in the service, `before` in its fork.

    `switches`: the service itself is upgraded afterwards. `seconds` are those of each step; `report` is what is known
    of the upgrade.
    """

    from_major: int
    to_major: int
    facts: UpgradeFacts
    keeps: bool
    switches: bool = False
    before: Survey | None = None
    seconds: dict[str, float] = {}
    report: dict[str, Any] = {}


class UpgradeState(Interrupting, frozen=True, kw_only=True):
    """`copy_id` names the throw-away server that is upgraded; `previous_id` is the service that gets the state before.

    With `is_open` clients may have been let in, so that nothing is undone.
    """

    from_major: int
    to_major: int
    copy_id: str
    previous_id: str
    stopped_at: datetime | None = None
    keeps_statistics: bool = False
    is_open: bool = False


class RestoreState(ForkState, frozen=True, kw_only=True):
    """Of a restore in place; `parent_id` is the service that the wanted state is taken from.

    `verb` says what was asked for: restore, reset or rewind. `keeps_roles`: the state is one of the service itself, so
    roles that it does not have now keep their passwords. `copy_id` names the throw-away server that is made beside the
    service, `snapshot_id` the snapshot that is taken of it. `previous_id` gets the data of before, as a service with
    the name `previous_name` at one of the `free_ports`; without a name that data is removed.
    `target_text` is the caller's time; `key` is a digest of the caller's Idempotency-Key.
    `secures_late`: the copy is secured at the endpoint only. `was_down`: its server did not run; `was_paused`: nor was
    it to run. With `is_open` clients may have been let in, so that nothing is undone.
    """

    verb: str
    keeps_roles: bool
    copy_id: str
    snapshot_id: str
    previous_id: str
    pg_major: int
    previous_name: str | None = None
    free_ports: tuple[int, ...] = ()
    target_text: str | None = None
    key: str | None = None
    data_time: datetime | None = None
    snapshot: Snapshot | None = None
    interrupted: str | None = None
    secures_late: bool = False
    was_down: bool = False
    was_paused: bool = False
    stopped_at: datetime | None = None
    stopped_seconds: float | None = None
    is_open: bool = False


class MoveState(Interrupting, frozen=True, kw_only=True):
    """Of a move to another Ramet, whose address is `to_url`; the keys are sealed, and not there when it is over.

    `password` is that of `role`, as which the copy streams. `target_id` is the service there; `end_lsn` is where the
    service ends here. From the time when `is_decided`, only the other Ramet can say where the service is.
    `name` is that of the service there, with `is_named` as requested, otherwise as it is here at the end; `kept_as` is
    the name that the service gets here. `address` is the endpoint there.
    """

    to_url: str
    public_key: str
    secret_key: str | None
    authority: str
    password: str | None
    name: str
    kept_as: str
    is_named: bool = True
    to_project_id: str = ""
    role: str = ""
    target_id: str | None = None
    end_lsn: str | None = None
    is_decided: bool = False
    stopped_at: datetime | None = None
    stopped_seconds: float | None = None
    address: tuple[str, int] | None = None
    notes: tuple[str, ...] = ()


class RecoverState(RecoveryState, frozen=True, kw_only=True):
    """`paused`: the lost service was, and is paused afterwards."""

    paused: bool


class DrillState(RecoveryState, frozen=True, kw_only=True):
    """`drill_id` names the throw-away server; the archive is verified up to the segment `at`.

    With `is_off_host` the data is taken from the off-host archive, and nothing of the host. `pg_major` is the version
    that the service has when the drill begins. With `gives_way` it ends, unfinished, for what waits for the service.
    """

    drill_id: str
    pg_major: int | None = None
    at: str = ""
    is_off_host: bool = False
    gives_way: bool = False


class SetSleepState(Interrupting, frozen=True, kw_only=True):
    """When the service slept before, and what port its server had."""

    seconds_before: int | None
    port_before: int | None


class ResizeState(Interrupting, frozen=True, kw_only=True):
    """The sizes before and after."""

    before: StoredSize
    after: StoredSize


class AddressState(Interrupting, frozen=True, kw_only=True):
    """The hosts before and after, and those that the service had `earlier`."""

    before: str
    after: str
    earlier: tuple[str, ...] = ()


class WalLevelState(Interrupting, frozen=True, kw_only=True):
    """The wal_level before and after; `is_in_force`: a server is ready with the one after, and so are the roles."""

    before: WalLevel
    after: WalLevel
    is_in_force: bool = False


class StandbysState(Interrupting, frozen=True, kw_only=True):
    """The standbys before and after."""

    before: Standbys
    after: Standbys


class ParametersState(Interrupting, frozen=True, kw_only=True):
    """The settings before and after; with `restarts` the server may be restarted for those that need it."""

    before: dict[str, str]
    after: dict[str, str]
    restarts: bool


class OptimizeState(Interrupting, frozen=True, kw_only=True):
    """How ANALYZE ended. `opens`: the server was down, and is being started and opened."""

    statistics: str | None = None
    opens: bool = False


class PoolerState(Struct, frozen=True, kw_only=True):
    """`enabling`: there was no pooler before, so there is none when it fails."""

    enabling: bool


class ResizeReplicasState(Restartable, frozen=True, kw_only=True):
    """The size before; the row has the new one."""

    before: StoredSize


class DeleteReplicasState(Struct, frozen=True, kw_only=True):
    """The operation to wait for: one that was canceled."""

    after: str | None = None


class SnapshotState(Struct, frozen=True, kw_only=True):
    """`retired` are the snapshots whose files are to be removed. `seconds` is how long the steps before took."""

    snapshot_id: str
    kind: SnapshotKind
    name: str | None = None
    retired: tuple[str, ...] = ()
    seconds: float = 0.0


class ExpiryState(Struct, frozen=True, kw_only=True):
    """`retired` are the snapshots whose files are still to be removed; WAL from before `trimmed_to` is removed."""

    retired: tuple[str, ...] = ()
    trimmed_to: str | None = None


class OneSnapshotState(Struct, frozen=True, kw_only=True):
    """The snapshot that the operation is about."""

    snapshot_id: str


STATES: Mapping[ProcedureName, type[Struct]] = {
    ProcedureName.CREATE: CreateState,
    ProcedureName.FORK: ForkState,
    ProcedureName.RECOVER: RecoverState,
    ProcedureName.IMPORT: ImportState,
    ProcedureName.TRY_UPGRADE: TryUpgradeState,
    ProcedureName.UPGRADE: UpgradeState,
    ProcedureName.FOLLOW: FollowState,
    ProcedureName.COPY_AGAIN: NoState,
    ProcedureName.REPLACE_COPY: ReplaceCopyState,
    ProcedureName.PROMOTE: PromoteState,
    ProcedureName.FOLLOW_LOGICAL: ImportState,
    ProcedureName.PROMOTE_LOGICAL: PromoteState,
    ProcedureName.RESTORE: RestoreState,
    ProcedureName.MOVE: MoveState,
    ProcedureName.STOP: Interrupting,
    ProcedureName.START: Interrupting,
    ProcedureName.RESTART: Restartable,
    ProcedureName.SLEEP: Interrupting,
    ProcedureName.SET_SLEEP: SetSleepState,
    ProcedureName.RESIZE: ResizeState,
    ProcedureName.SET_WAL_LEVEL: WalLevelState,
    ProcedureName.SET_HA: StandbysState,
    ProcedureName.SET_PARAMETERS: ParametersState,
    ProcedureName.SET_ADDRESS: AddressState,
    ProcedureName.DELETE: DeleteState,
    ProcedureName.OPTIMIZE: OptimizeState,
    ProcedureName.POOLER: PoolerState,
    ProcedureName.CREATE_REPLICAS: Restartable,
    ProcedureName.RESIZE_REPLICAS: ResizeReplicasState,
    ProcedureName.RESTART_REPLICAS: Restartable,
    ProcedureName.REBUILD_REPLICAS: Restartable,
    ProcedureName.DELETE_REPLICAS: DeleteReplicasState,
    ProcedureName.REPLICA_POOLER: PoolerState,
    ProcedureName.SNAPSHOT: SnapshotState,
    ProcedureName.EXPIRE: ExpiryState,
    ProcedureName.DELETE_SNAPSHOT: OneSnapshotState,
    ProcedureName.PREPARE: OneSnapshotState,
    ProcedureName.AFTERCARE: NoState,
    ProcedureName.DRILL: DrillState,
}

# The sealed secrets in these states, which go when an operation ends, however it does.
SECRETS: Mapping[ProcedureName, tuple[str, ...]] = {
    ProcedureName.IMPORT: ("sealed",),
    ProcedureName.FOLLOW: ("sealed",),
    ProcedureName.FOLLOW_LOGICAL: ("sealed",),
    ProcedureName.MOVE: ("secret_key", "password"),
}


def stored_size(size: Size) -> StoredSize:
    """Return a size in the form that is stored."""
    return size.cpu_millis, size.memory_gbs
