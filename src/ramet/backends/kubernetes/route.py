"""Whether clients reach an endpoint, tried from where this process runs: a Service leads nowhere for a moment."""

import logging
import socket
import time
from dataclasses import dataclass, field

import psycopg

from ramet.backends.interface.values import Server
from ramet.backends.local.sql.connections import ADMIN_ROLE, DATABASE

_log = logging.getLogger(__name__)
_ANSWER_SECONDS = 15.0
_TRUST_SECONDS = 600.0
# external-dns looks once a minute, and that there was no name is cached for a while.
_NAME_SECONDS, _NAMELESS_SECONDS = 300.0, 86_400.0


@dataclass
class Route:
    """The way to endpoints from here. Where one endpoint has shown that there is none, it is not tried for a while.

    It has not where another one was `reached` on the same host, or had a name in the same domain.
    """

    _none_until: dict[str, float] = field(default_factory=dict)
    _silent_since: dict[str, float] = field(default_factory=dict)
    _nameless_since: dict[str, float] = field(default_factory=dict)
    _reached: set[str] = field(default_factory=set)

    def leads_to(self, server: Server) -> bool:
        """Tell whether an endpoint was just seen to ask for a password over TLS."""
        is_tried = server.port and self._none_until.get(server.host, 0.0) <= time.monotonic()
        return bool(is_tried) and self._reaches(server)

    def answers(self, server: Server) -> bool:
        """Tell whether an endpoint asks for a password over TLS; True, too, where there is no way from here.

        That there is none is believed after a while: clients may be elsewhere.
        """
        now, host = time.monotonic(), server.host
        if not server.port or self._none_until.get(host, 0.0) > now:
            return True
        if self._reaches(server) or not _has_address(host):
            self._silent_since.pop(server.service_id, None)
            return True
        if now - self._silent_since.setdefault(server.service_id, now) < _ANSWER_SECONDS:
            return False
        self._silent_since.pop(server.service_id)
        if host in self._reached:
            _log.warning("the endpoint of service %s does not answer here", server.service_id)
        else:
            self._none_until[host] = now + _TRUST_SECONDS
            _log.warning("the endpoints on %s cannot be reached from here", host)
        return True

    def has_name(self, server: Server) -> bool:
        """Tell whether the name of an endpoint has an address; True, too, where its domain has no names here.

        That is believed after a while: clients may be elsewhere.
        """
        now, domain = time.monotonic(), server.host.partition(".")[2]
        if self._none_until.get(domain, 0.0) > now:
            return True
        if _has_address(server.host):
            self._nameless_since.pop(server.service_id, None)
            self._reached.add(domain)
            return True
        if now - self._nameless_since.setdefault(server.service_id, now) < _NAME_SECONDS:
            return False
        self._nameless_since.pop(server.service_id)
        if domain in self._reached:
            _log.warning("the name %s has no address here", server.host)
        else:
            self._none_until[domain] = now + _NAMELESS_SECONDS
            _log.warning("the names of endpoints in %s have no addresses here", domain)
        return True

    def _reaches(self, server: Server) -> bool:
        found = _asks_password(server)
        if found:
            self._reached.add(server.host)
            self._silent_since.pop(server.service_id, None)
        return found


def _asks_password(server: Server) -> bool:
    try:
        psycopg.connect(
            host=server.host, port=server.port, user=ADMIN_ROLE, dbname=DATABASE, sslmode="require",
            gssencmode="disable", passfile="/nonexistent", connect_timeout=3, application_name="ramet",
        ).close()  # fmt: skip
    except psycopg.OperationalError as error:
        return "no password supplied" in str(error)
    return False


def _has_address(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False
