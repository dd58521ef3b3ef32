"""Services that are to get another host get it, one operation each, as soon as nothing else works on them."""

from ramet.control.duties.faults import Faults
from ramet.control.lookup import claim, is_being_restored
from ramet.control.plane import Plane
from ramet.model.address import earlier_hosts_of, wanted_host_of, with_wanted_host
from ramet.model.procedures import ProcedureName
from ramet.procedures.state import AddressState
from ramet.store import services

_faults = Faults("addresses")


def move_services(plane: Plane) -> None:
    """Submit the operations for services without one; others have their turn the next time."""
    with plane.store.read() as tx:
        found = [one.id for one in services.that_move(tx) if one.activity is None]
    for service_id in found:
        with _faults.contained(service_id):
            _submit(plane, service_id)


def _submit(plane: Plane, service_id: str) -> None:
    with plane.change() as tx:
        current = services.get_service(tx, service_id, lock=True)
        wanted = None if current is None else wanted_host_of(current.settings)
        if current is None or wanted is None or current.activity is not None or current.deleted_at is not None:
            return
        if current.half_promoted:
            return  # that would open it
        if current.host == wanted:
            services.update_service(tx, service_id, settings=with_wanted_host(current.settings, None))
        elif current.failed_at is None and not is_being_restored(tx, service_id):
            state = AddressState(before=current.host, after=wanted, earlier=earlier_hosts_of(current.settings))
            claim(plane, tx, current, ProcedureName.SET_ADDRESS, state)
