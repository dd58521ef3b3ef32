"""Whose key a tool uses: the one of the command, or over HTTP the one that each request carries."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property

from ramet.api.schemas.services import Service
from ramet.cli.connection import connection_string, log_in
from ramet.client import Client
from ramet.errors import Exhausted, Unauthorized
from ramet.model.rights import Role

Callers = Callable[[Mapping[str, str] | None], "Caller"]
LOGIN_SECONDS = 900
_MOST_CALLERS = 100
MOST_CALLS = 10  # of a key at once: the calls of all keys share 40 threads


class Caller:
    """The holder of a key: a client, its logins in services, and whether its user's file keeps passwords of forks.

    `most_calls` is how many of its calls may be under way at once; None: any number.
    """

    def __init__(self, client: Client, *, saves_passwords: bool = False, most_calls: int | None = None) -> None:
        self.client = client
        self.saves_passwords = saves_passwords
        self._most_calls = most_calls
        self._calls = 0
        self._logins: dict[tuple[str, bool], tuple[str, datetime]] = {}
        self._lock = threading.Lock()

    @cached_property
    def is_forker(self) -> bool:
        """Whether the key sees its own forks alone."""
        return self.client.auth_info().api_key.role is Role.FORKER

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call while it lasts. Raises Exhausted when as many as are allowed are under way."""
        with self._lock:
            if self._most_calls is not None and self._calls >= self._most_calls:
                raise Exhausted(
                    "TOO_MANY_CALLS",
                    f"{self._most_calls} calls with this key are under way, which is the most at once",
                    "Wait until one of them has ended.",
                )
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1

    def login(self, service: Service, seconds: float, *, read_only: bool) -> str:
        """Return the connection string of a login of the key in a service; one that lasts for `seconds` is used again.

        When a login ends, so do its sessions. A new one lasts for LOGIN_SECONDS.
        """
        key, now = (service.service_id, read_only), datetime.now(UTC)
        with self._lock:
            uri, until = self._logins.get(key, ("", now))
            if until - timedelta(seconds=seconds) > now:
                return uri
        made = log_in(self.client, service, LOGIN_SECONDS, read_only=read_only)
        uri = connection_string(service.endpoint, made.password, made.role)
        with self._lock:
            self._logins[key] = (uri, made.expires_at)
        return uri

    def forget_logins(self, service_id: str) -> None:
        """Forget the logins in a service: it is gone, or has other data, which does not have them."""
        with self._lock:
            for read_only in (True, False):
                self._logins.pop((service_id, read_only), None)


def one_caller(client: Client) -> Callers:
    """Return what lets every call use one client."""
    caller = Caller(client, saves_passwords=True)
    return lambda _: caller


class CallersByKey:
    """The holders of the keys in requests. A key is checked when it is first seen, and by Ramet at each use."""

    def __init__(self, base_url: str, ca: str) -> None:
        self._base_url = base_url
        self._ca = ca
        self._known: OrderedDict[bytes, Caller] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, headers: Mapping[str, str] | None) -> Caller:
        """Return who sent a request with these headers. Raises Unauthorized, or what the client raises."""
        header = (headers or {}).get("authorization", "")
        digest = hashlib.sha256(header.encode()).digest()
        with self._lock:
            if (known := self._known.get(digest)) is not None:
                self._known.move_to_end(digest)
                return known
        caller = Caller(self._client(header), most_calls=MOST_CALLS)
        with self._lock:
            self._known[digest] = caller
            while len(self._known) > _MOST_CALLERS:
                self._known.popitem(last=False)
        return caller

    def _client(self, header: str) -> Client:
        from ramet.api.auth import credentials  # this imports the HTTP server, which stdio does not need

        public_key, secret = credentials(header)
        client = Client(self._base_url, "-", public_key, secret, ca=self._ca)
        try:
            client.project_id = client.auth_info().api_key.project.id
        except BaseException:
            client.close()
            raise
        return client


def is_refused(error: BaseException) -> bool:
    """Tell whether a request carries no key, or one that Ramet does not accept."""
    return isinstance(error, Unauthorized) or getattr(error, "status", None) == 401
