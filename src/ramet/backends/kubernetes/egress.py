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
from ramet.model.environment import Environment

_LOOK_SECONDS = 60.0


def close(place: Place, service_id: str) -> None:
    """Keep a fork from connecting to other systems, before it has a pod. May run again."""
    place.api.apply(NetworkPolicy, policies.closed(service_id, place.api.addresses()))


def settle(place: Place, server: Server) -> None:
    """Let a secured fork connect to what its environment allows. A service that is no fork has no policy."""
    if place.api.get(NetworkPolicy, names.policy_name(server.service_id)) is not None:
        _settle(place, server.service_id, is_free=server.environment is not Environment.DEV)


def follow(place: Place, replica_id: str, primary_id: str) -> None:
    """Let a read replica connect to its primary, and to what that may connect to. May run again."""
    is_free = place.api.get(NetworkPolicy, names.policy_name(primary_id)) is None
    _settle(place, replica_id, primary_id, is_free=is_free)


def _settle(place: Place, service_id: str, primary_id: str | None = None, *, is_free: bool) -> None:
    allowed = place.site.fork_egress
    if is_free or allowed == policies.ALLOW:
        place.api.delete(NetworkPolicy, names.policy_name(service_id))
        return
    networks = [] if allowed == policies.DENY else allowed.split(",")
    place.api.apply(NetworkPolicy, policies.restricted(service_id, place.api.addresses(), networks, primary_id))


@dataclass
class Renewal:
    """Keeps the policies of open forks to where the API server is now: it moves when its nodes are replaced."""

    place: Place
    _addresses: frozenset[ApiAddress] = frozenset()
    _looked_at: float = -math.inf
    _applied: dict[str, frozenset[ApiAddress]] = field(default_factory=dict)

    def renew(self, server: Server) -> None:
        """Apply an existing policy again, once in each process and when the addresses have changed.

        One that is not needed any more is deleted. The next call tries again what fails.
        """
        with contextlib.suppress(Error, OSError):
            addresses = self._look()
            if self._applied.get(server.service_id) == addresses:
                return
            if server.primary is None:
                settle(self.place, server)
            elif self.place.api.get(NetworkPolicy, names.policy_name(server.service_id)) is not None:
                follow(self.place, server.service_id, server.primary.service_id)
            self._applied[server.service_id] = addresses

    def forget(self, service_id: str) -> None:
        """Forget a service that is gone."""
        self._applied.pop(service_id, None)

    def _look(self) -> frozenset[ApiAddress]:
        """Return the addresses; ask for them once a minute, and at each call until there is an answer."""
        if time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self._addresses = frozenset(self.place.api.addresses())
            self._looked_at = time.monotonic()
        return self._addresses
