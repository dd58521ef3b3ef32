"""What forks may connect to: nothing until they are secured, then what the settings say."""

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import names, policies
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import NetworkPolicy
from ramet.model.environment import Environment


def close(place: Place, service_id: str) -> None:
    """Keep a fork from connecting to other systems, before it has a pod. May run again."""
    place.api.apply(NetworkPolicy, policies.closed(service_id, place.api.addresses()))


def settle(place: Place, server: Server) -> None:
    """Let a secured fork connect to what its environment allows. A service that is no fork has no policy."""
    name = names.policy_name(server.service_id)
    if place.api.get(NetworkPolicy, name) is None:
        return
    allowed = place.site.fork_egress
    if server.environment is not Environment.DEV or allowed == policies.ALLOW:
        place.api.delete(NetworkPolicy, name)
        return
    networks = [] if allowed == policies.DENY else allowed.split(",")
    place.api.apply(NetworkPolicy, policies.restricted(server.service_id, place.api.addresses(), networks))
