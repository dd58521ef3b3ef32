"""The verbs over logical replication from a service: its wal_level, and its replication slots."""

from collections.abc import Sequence
from dataclasses import dataclass

from ramet.backends.interface.replication import ReplicationSlot, ReplicationSlots
from ramet.control.admission import capacity_of, check_admission, wanted_to_start
from ramet.control.lookup import check_not_restored, check_writable, claim, find_service, read_service, wrong_state
from ramet.control.plane import Plane
from ramet.errors import WrongState
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.status import READY_OR_PAUSED, Status
from ramet.model.wal_level import WalLevel, wal_level_of
from ramet.procedures.servers import server_of
from ramet.procedures.state import WalLevelState


@dataclass(frozen=True)
class ReplicationView:
    """The wal_level of a service, and its slots; each may retain `slot_limit_bytes` of WAL, None if not known."""

    wal_level: WalLevel
    slot_limit_bytes: int | None
    slots: Sequence[ReplicationSlot]


def get_replication(plane: Plane, project_id: str, service_id: str) -> ReplicationView:
    """Return the wal_level of a service and its replication slots. Raises Unavailable when its server is down."""
    service = read_service(plane, project_id, service_id)
    found = _slots_of(plane, service, reads_volume=False)
    return ReplicationView(wal_level_of(service.settings), found.limit_bytes, found.slots)


def set_wal_level(plane: Plane, project_id: str, service_id: str, wal_level: WalLevel) -> Service:
    """Accept another wal_level, for which the server restarts; a paused service is resumed.

    Nothing happens when it has that already. Raises WrongState while there are slots that `replica` cannot keep.
    """
    seen = read_service(plane, project_id, service_id)
    check_writable(seen, "setWalLevel")
    if status_of(seen) in READY_OR_PAUSED and wal_level is WalLevel.REPLICA:
        _check_slots(seen, _slots_of(plane, seen, reads_volume=True).slots)
    capacity = capacity_of(plane)
    with plane.change() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        if status_of(service) not in READY_OR_PAUSED:
            raise wrong_state(service, "setWalLevel", READY_OR_PAUSED)
        before = wal_level_of(service.settings)
        if before is wal_level:
            return service
        check_not_restored(tx, service)
        if service.paused:
            check_admission(plane, tx, capacity, project_id, wanted_to_start(tx, service))
        return claim(plane, tx, service, ProcedureName.SET_WAL_LEVEL, WalLevelState(before=before, after=wal_level))


def _slots_of(plane: Plane, service: Service, *, reads_volume: bool) -> ReplicationSlots:
    if service.ready_at is None or service.failed_at is not None:
        return ReplicationSlots(None, ())
    return plane.backend.replication.slots(server_of(service), reads_volume=reads_volume)


def _check_slots(service: Service, slots: Sequence[ReplicationSlot]) -> None:
    """Raise WrongState when there are slots. Physical ones could not be dropped any more afterwards."""
    if not slots:
        return
    names = [slot.name for slot in slots]
    statements = "; ".join(f"SELECT pg_drop_replication_slot('{name}')" for name in names)
    resume = "Resume the service; then d" if status_of(service) is Status.PAUSED else "D"
    raise WrongState(
        "REPLICATION_SLOTS_EXIST",
        f"Service {service.id} has the replication slots {', '.join(names)}, and wal_level 'replica' cannot keep them",
        f"{resume}rop the subscriptions that use them, or as tsdbadmin: {statements};",
    )
