"""The endpoints of this host's services that may sleep."""

import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ramet.backends.interface.values import Server
from ramet.backends.local.endpoints.control import Control
from ramet.backends.local.server.configuration import listen_addresses
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.readdress import readdress
from ramet.errors import Failed

_log = logging.getLogger(__name__)
_POLL_MARGIN_SECONDS = 10.0


@dataclass(frozen=True)
class LocalEndpoints:
    """Endpoints that a process of this host owns; obeys ramet.backends.interface.endpoints.Endpoints.

    `halt` stops a server cleanly, and leaves its endpoint as it is.
    """

    instances: Instances
    halt: Callable[[Server], None]
    _unopened: set[str] = field(default_factory=set)

    @cached_property
    def control(self) -> Control:
        """The process of this data root. Its directory is outside of the pool, which can be unmounted."""
        sockets = self.instances.layout.sockets
        return Control(sockets.with_name(f"{sockets.name}-endpoints") / "process", self.instances.account)

    def check(self) -> None:
        """Have everything that is needed."""

    def fall_asleep(self, server: Server) -> bool:
        if not self.control.ask("hold", **self._route(server))["held"]:
            return False
        self.halt(server)
        return True

    def readdress(self, server: Server) -> bool:
        return readdress(self.instances, server)

    def serve(self, server: Server) -> None:
        self.control.ask("serve", **self._route(server))

    def keep(self, awake: Sequence[Server], asleep: Sequence[Server]) -> None:
        if not awake and not asleep:
            return
        known = set(self.control.ask("known")["services"])
        for is_asleep, servers in ((False, awake), (True, asleep)):
            for server in servers:
                if server.service_id not in known:
                    self._keep(server, is_asleep=is_asleep)

    def _keep(self, server: Server, *, is_asleep: bool) -> None:
        try:
            self.control.ask("keep", **self._route(server), is_asleep=is_asleep)
            self._unopened.discard(server.service_id)
        except Failed as error:
            level = logging.DEBUG if server.service_id in self._unopened else logging.WARNING
            self._unopened.add(server.service_id)
            _log.log(level, "service %s has no endpoint: %s", server.service_id, error)

    def list_open(self) -> Sequence[str]:
        return self.control.services()

    def close(self, service_id: str) -> None:
        if self.control.runs() and self.control.ask("close", service_id=service_id).get("left") == 0:
            self.control.tidy()

    def refuse(self, service_id: str, message: str, hint: str) -> None:
        self.control.ask("refuse", service_id=service_id, message=message, hint=hint)

    def waiting(self, timeout_seconds: float) -> Sequence[str]:
        answer_seconds = timeout_seconds + _POLL_MARGIN_SECONDS
        found: list[str] = self.control.ask("waiting", answer_seconds, seconds=timeout_seconds)["services"]
        return found

    def _route(self, server: Server) -> dict[str, Any]:
        tls = self.instances.paths(server.service_id).tls
        has_tls = self.instances.config.features(server).has_tls
        return {
            "service_id": server.service_id,
            "addresses": _resolved(listen_addresses(server.host, has_tls)),
            "port": server.port,
            "server_port": server.server_port,
            "certificate": [str(tls / "server.crt"), str(tls / "server.key")] if has_tls else None,
        }


def _resolved(names: str) -> list[str]:
    """Return the addresses that listen_addresses means."""
    if names == "*":
        return ["0.0.0.0", "::"]  # noqa: S104 - the endpoints of the host
    found = [socket.getaddrinfo(name.strip(), None, type=socket.SOCK_STREAM) for name in names.split(",")]
    return list(dict.fromkeys(str(each[4][0]) for one in found for each in one))
