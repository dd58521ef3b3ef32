"""The host that endpoints announce, changed for services that exist: what that takes, and that it is to happen.

New services get the host of the settings. One that exists keeps its own until the operator of the host says otherwise:
servers may have to listen elsewhere for it, and be restarted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ramet.control.placement import Placement
from ramet.endpoints import is_loopback
from ramet.model.address import with_wanted_host
from ramet.model.service import Service
from ramet.store import services
from ramet.store.database import Store


@dataclass(frozen=True)
class Move:
    """A service that is to get another host, and the host."""

    service: Service
    host: str

    @property
    def restarts(self) -> bool:
        """Whether its server has to listen elsewhere, and restarts for that; an endpoint that outlives it does not."""
        runs = not self.service.paused and self.service.server_port is None
        return runs and is_loopback(self.service.host) != is_loopback(self.host)


def planned_moves(store: Store, host: str, has_tls: Callable[[int], bool]) -> Sequence[Move]:
    """Return the services that do not have the host that new ones with it would have."""
    placement = Placement("", host, range(0))
    with store.read() as tx:
        found = services.live_services(tx)
    moves = (Move(each, placement.host_of(has_tls=has_tls(each.pg_major))) for each in found)
    return [each for each in moves if each.service.host != each.host]


def request_moves(store: Store, moves: Sequence[Move]) -> None:
    """Record, for all services at once, which host they are to get; the operations follow."""
    with store.write() as tx:
        for move in moves:
            current = services.get_service(tx, move.service.id, lock=True)
            if current is not None and current.deleted_at is None:
                services.update_service(tx, current.id, settings=with_wanted_host(current.settings, move.host))


def pending_moves(store: Store) -> int:
    """Return how many services are still to get another host; not those that only their promotion can open again."""
    with store.read() as tx:
        return len([one for one in services.that_move(tx) if not one.half_promoted])


def unmoved(store: Store, moves: Sequence[Move]) -> Sequence[Service]:
    """Return the services that exist and have not got their host."""
    with store.read() as tx:
        current = [(services.get_service(tx, move.service.id), move.host) for move in moves]
    return [one for one, host in current if one is not None and one.deleted_at is None and one.host != host]
