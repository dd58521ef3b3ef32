"""What forks may connect to: nothing until they are secured, then what the settings say."""

import contextlib
import math
import time
from dataclasses import dataclass, field

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import names, policies
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.policies import ApiAddress
from ramet.backends.kubernetes.resources import NetworkPolicy
from ramet.errors import Error

_LOOK_SECONDS = 60.0


def close(place: Place, service_id: str) -> None:
    """Keep a fork from connecting to other systems, before it has a pod. May run again."""
    place.api.apply(NetworkPolicy, policies.closed(service_id, place.api.addresses()))


def settle(place: Place, server: Server) -> None:
    """Let a secured server connect to what it may, a read replica to its primary, too. May run again."""
    primary_id = None if server.primary is None else server.primary.service_id
    _settle(place, server.service_id, primary_id, is_free=not server.is_dev_fork)


def follow(place: Place, replica_id: str, primary_id: str) -> None:
    """Let a read replica that has no pod yet connect to its primary, and to what that may connect to now."""
    is_free = place.api.get(NetworkPolicy, names.policy_name(primary_id)) is None
    _settle(place, replica_id, primary_id, is_free=is_free)


def _settle(place: Place, service_id: str, primary_id: str | None, *, is_free: bool) -> None:
    allowed = place.site.fork_egress
    if is_free or allowed == policies.ALLOW:
        place.api.delete(NetworkPolicy, names.policy_name(service_id))
        return
    networks = [] if allowed == policies.DENY else allowed.split(",")
    place.api.apply(NetworkPolicy, policies.restricted(service_id, place.api.addresses(), networks, primary_id))


@dataclass
class Renewal:
    """Keeps open forks to what they may connect to: environments change, and the API server moves with its nodes."""

    place: Place
    _addresses: frozenset[ApiAddress] = frozenset()
    _looked_at: float = -math.inf
    _applied: dict[str, tuple[bool, frozenset[ApiAddress]]] = field(default_factory=dict)

    def renew(self, server: Server) -> None:
        """Give a server its policy, or none, once in each process and when its environment or the addresses changed.

        The next call tries again what fails. A service that was deleted just now gets none, which nobody would remove.
        """
        with contextlib.suppress(Error, OSError):
            if self.place.clusters.get(names.cluster_name(server.service_id)) is None:
                return
            wanted = server.is_dev_fork, self._look()
            if self._applied.get(server.service_id) != wanted:
                settle(self.place, server)
                self._applied[server.service_id] = wanted

    def forget(self, service_id: str) -> None:
        """Forget a service that is gone."""
        self._applied.pop(service_id, None)

    def _look(self) -> frozenset[ApiAddress]:
        """Return the addresses; ask for them once a minute, and at each call until there is an answer."""
        if time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self._addresses = frozenset(self.place.api.addresses())
            self._looked_at = time.monotonic()
        return self._addresses
