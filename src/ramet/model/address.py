"""The host in the endpoints of a service: the one that it is to get, and those that it had before."""

from collections.abc import Mapping
from typing import Any

_WANTED, _EARLIER = "wanted_host", "earlier_hosts"
# Certificates stay valid for so many hosts of before.
_MOST_EARLIER = 3


def wanted_host_of(service_settings: Mapping[str, Any]) -> str | None:
    """Return the host that a service is to get by its settings; None: it keeps the one that it has."""
    return service_settings.get(_WANTED)


def with_wanted_host(service_settings: Mapping[str, Any], host: str | None) -> dict[str, Any]:
    """Return the settings of a service that is to get another host; None: none any more."""
    others = {name: value for name, value in service_settings.items() if name != _WANTED}
    return others if host is None else {**others, _WANTED: host}


def earlier_hosts_of(service_settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the hosts that a service had before, newest first: clients may still use their names."""
    return tuple(service_settings.get(_EARLIER, ()))


def with_earlier_hosts(service_settings: Mapping[str, Any], hosts: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of a service that had these hosts before."""
    others = {name: value for name, value in service_settings.items() if name != _EARLIER}
    return {**others, _EARLIER: list(hosts)} if hosts else others


def earlier_hosts_after(earlier: tuple[str, ...], before: str, after: str) -> tuple[str, ...]:
    """Return the earlier hosts of a service whose host has changed: not the one that it has again."""
    return tuple(dict.fromkeys(host for host in (before, *earlier) if host != after))[:_MOST_EARLIER]
