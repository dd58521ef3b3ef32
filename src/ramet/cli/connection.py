"""Connection strings of services: with TLS, except on loopback if the server was built without it.

And logins in them, and the environment of programs that are to connect there, and nowhere else.
"""

import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ramet.api.schemas.logins import LoginWithPassword
from ramet.api.schemas.services import Service
from ramet.api.schemas.shared import Endpoint
from ramet.client import ApiError, Client
from ramet.endpoints import ADMIN, DATABASE, connection_uri, is_loopback
from ramet.model.login import USUAL_SECONDS
from ramet.model.status import Status

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import Buffer

# A service file overrides PGHOST and its like, and PGHOSTADDR the address of any host (PostgreSQL 18 docs, 32.15 and
# 32.17).
LEADS_ELSEWHERE = ("PGSERVICE", "PGSERVICEFILE", "PGHOSTADDR")
_TEXT_TYPES: tuple[int | str, ...] = (
    "text",
    "name",
    "varchar",
    "bpchar",
    '"char"',
    "json",
    "jsonb",
    0,
)  # 0: what psycopg has no loader for
_PASSWORDS = ("PGPASSFILE", "PGPASSWORD")
# Another one wakes it, or the key may not: it can connect, and the refusal of the login says so.
_NOT_WOKEN = ("INVALID_STATE", "FORBIDDEN")
_ASLEEP_WITHIN_SECONDS = 60.0
_PAUSE_SECONDS = 0.2


def connection_string(
    endpoint: Endpoint, password: str | None = None, role: str = ADMIN, database: str = DATABASE
) -> str:
    """Return the URI for psql and drivers, with the password if there is one."""
    tls = speaks_tls(endpoint)
    return connection_uri(endpoint.host, endpoint.port, role=role, password=password, tls=tls, database=database)


def log_in(
    client: Client, service: Service, seconds: int = USUAL_SECONDS, *, read_only: bool = False
) -> LoginWithPassword:
    """Make a login of the key in a service; one that is asleep is woken first, also when it has just fallen asleep."""
    deadline = time.monotonic() + _ASLEEP_WITHIN_SECONDS
    while True:
        _wake(client, service)
        try:
            return client.create_login(service.service_id, seconds, read_only=read_only)
        except ApiError as error:
            if error.code != "FALLING_ASLEEP" or time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE_SECONDS)
        service = client.get_service(service.service_id)


def _wake(client: Client, service: Service) -> None:
    if service.metadata.sleeping:
        try:
            client.start_service(service.service_id)
        except ApiError as error:
            if error.code not in _NOT_WOKEN:
                raise
    if service.metadata.sleeping or service.status is Status.RESUMING:
        client.wait_ready(service.service_id)


def connect(uri: str, **options: Any) -> "psycopg.Connection":
    """Connect to a service by its URI. With a hostaddr libpq looks for no PGHOSTADDR, which would lead elsewhere.

    Without an encoding psycopg would return bytes for texts of a database that has none (SQL_ASCII).
    """
    import psycopg  # few commands need it

    return psycopg.connect(uri, hostaddr="", client_encoding="UTF8", **options)


def read_any_text(session: "psycopg.Connection", others: Iterable[str] = ()) -> None:
    r"""Read as text, with \xff for what is no UTF-8, texts of a database without an encoding (SQL_ASCII), and `others`.

    PostgreSQL does not send such bytes to who wants UTF-8. JSON is text, too: psycopg would decode it.
    """
    from psycopg.adapt import Loader  # few commands need it

    class AnyText(Loader):
        def load(self, data: "Buffer") -> str:
            return bytes(data).decode(errors="backslashreplace")

    if session.info.parameter_status("server_encoding") != "SQL_ASCII":
        return
    session.autocommit, before = True, session.autocommit
    session.execute("SET client_encoding TO 'SQL_ASCII'")
    session.autocommit = before
    for each in (*_TEXT_TYPES, *others):
        session.adapters.register_loader(each, AnyText)


def libpq_environ(variables: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a program that connects with libpq by a URI of a service, or by `variables`.

    It has no variable of the user's that leads elsewhere, and none that has another password than `variables`, if these
    have one: libpq prefers PGPASSWORD to PGPASSFILE.
    """
    dropped = {*LEADS_ELSEWHERE, *(_PASSWORDS if any(name in variables for name in _PASSWORDS) else ())}
    return {**{name: value for name, value in environ.items() if name not in dropped}, **variables}


def speaks_tls(endpoint: Endpoint) -> bool:
    """Tell whether clients must use TLS: always, except for an endpoint on loopback that refuses it."""
    from ramet.machine.tls import refuses_tls  # few commands need it, and ssl is slow to import

    return not (is_loopback(endpoint.host) and refuses_tls(endpoint.host, endpoint.port))
