"""Logins end with their time or with their key: their roles are dropped as soon as the server can be asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ramet.control.duties.faults import Faults
from ramet.control.plane import Plane
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.procedures.servers import server_of
from ramet.store import keys, logins, services


@dataclass(frozen=True)
class EndedLogins:
    """The duty."""

    plane: Plane
    _faults: Faults = field(default_factory=lambda: Faults("logins"))

    def drop(self) -> None:
        """Drop the logins that have ended, and forget those of services that are gone."""
        with self.plane.store.read() as tx:
            known, now = logins.list_logins(tx), self.plane.clock()
            owners = {each.public_key for each in known}
            active = {one: (key := keys.find_key(tx, one)) is not None and key.is_active(now) for one in owners}
            gone = {one for one in {each.service_id for each in known} if _is_gone(services.get_service(tx, one))}
        over = [one for one in known if now >= one.expires_at or one.service_id in gone or not active[one.public_key]]
        for service_id in sorted({one.service_id for one in over}):
            with self._faults.contained(service_id):
                self._drop_of(service_id, [one.role for one in over if one.service_id == service_id])

    def _drop_of(self, service_id: str, roles: Sequence[str]) -> None:
        with self.plane.store.read() as tx:
            service = services.get_service(tx, service_id)
        if service is not None and not _is_gone(service):
            if status_of(service) is not Status.READY:
                return
            self.plane.backend.logins.drop(server_of(service), roles)
        with self.plane.store.write() as tx:
            logins.delete_logins(tx, service_id, roles)


def _is_gone(service: Service | None) -> bool:
    return service is None or service.deleted_at is not None or service.failed_at is not None
