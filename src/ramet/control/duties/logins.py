"""Logins end with their time or with their key: their roles are dropped as soon as the server can be asked."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ramet.control.plane import Plane
from ramet.errors import Error
from ramet.model.login import Login
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.procedures.servers import server_of
from ramet.store import keys, logins, services

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EndedLogins:
    """The duty."""

    plane: Plane

    def drop(self) -> None:
        """Drop the logins that have ended, and forget those of services that are gone."""
        with self.plane.store.read() as tx:
            known, now = logins.list_logins(tx), self.plane.clock()
            active = {
                one: (key := keys.find_key(tx, one)) is not None and key.is_active(now) for one in _keys_of(known)
            }
            gone = {one for one in {each.service_id for each in known} if _is_gone(services.get_service(tx, one))}
        over = [one for one in known if now >= one.expires_at or one.service_id in gone or not active[one.public_key]]
        for service_id in sorted({one.service_id for one in over}):
            self._drop_of(service_id, [one.role for one in over if one.service_id == service_id])

    def _drop_of(self, service_id: str, roles: Sequence[str]) -> None:
        with self.plane.store.read() as tx:
            service = services.get_service(tx, service_id)
        if service is not None and not _is_gone(service):
            if status_of(service) is not Status.READY:
                return
            try:
                self.plane.backend.logins.drop(server_of(service), roles)
            except Error as error:
                _log.warning("the logins of service %s that have ended were not dropped: %s", service_id, error)
                return
        with self.plane.store.write() as tx:
            logins.delete_logins(tx, roles)


def _is_gone(service: Service | None) -> bool:
    return service is None or service.deleted_at is not None or service.failed_at is not None


def _keys_of(known: Sequence[Login]) -> set[str]:
    return {one.public_key for one in known}
