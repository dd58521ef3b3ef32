"""Sessions in the databases of services, as a login of the key that is signed in: within limits of time and size."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg.abc import AdaptContext

from ramet.control.plane import Plane
from ramet.control.slots import Slots
from ramet.endpoints import ADMIN, ssl_mode
from ramet.errors import Error, Exhausted, NotFound, Unavailable
from ramet.model.service import Service
from ramet.workbench.logins import KeptLogins
from ramet.workbench.relay import Relay, beyond_limits

_MOST_BYTES = 16 * 1024**2
_GRACE_SECONDS = 30
_NO_DATABASE = "3D000"
_NO_DATABASE_TEXT = re.compile(r'FATAL: +database ".*" does not exist.*', re.DOTALL)
_REFUSED_PASSWORD = "28P01"  # noqa: S105 - an SQLSTATE
_REFUSED_TEXT = re.compile("authentication failed|is not permitted to log in")


class NoDatabase(NotFound):
    """The service has no database of this name."""

    def __init__(self, service: Service, name: str, known: Sequence[str] = ()) -> None:
        remedy = f"Choose one of {', '.join(known)}." if known else "Choose another database."
        super().__init__("DATABASE_NOT_FOUND", f"{service.name} has no database {name[:64]!r}", remedy)


@dataclass(frozen=True)
class Limits:
    """How long a session works, and which further settings it begins with."""

    seconds: int
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A database of a service that the caller of `plane` sees."""

    plane: Plane = field(repr=False)
    service: Service
    database: str


@dataclass(frozen=True)
class Workbench:
    """Opens sessions, as many at a time as there are `slots`. `connect` is psycopg's."""

    logins: KeptLogins = field(default_factory=KeptLogins)
    connect: Callable[..., psycopg.Connection] = psycopg.connect
    slots: Slots = field(default_factory=lambda: Slots(16, 8), repr=False)

    @contextmanager
    def session(
        self, place: Place, limits: Limits, *, writes: bool = False, context: AdaptContext | None = None
    ) -> Iterator[psycopg.Connection]:
        """Yield a session, whose role cannot write unless it `writes`; it begins no transaction.

        Raises Unavailable where there is none, Exhausted where there are too many, TooLarge and Unavailable when its
        limits end it, and psycopg's errors.
        """
        project_id = place.service.project_id
        if not self.slots.acquire(project_id):
            own, most = self.slots.most_of_project, self.slots.most
            wrong = f"{own} sessions of the console are open in the project, or {most} of all, which is the maximum"
            raise Exhausted("TOO_MANY_SESSIONS", wrong, "Try again when others have ended.")
        try:
            with self._bounded(place, limits, writes=writes, context=context) as session:
                yield session
        finally:
            self.slots.release(project_id)

    @contextmanager
    def _bounded(
        self, place: Place, limits: Limits, *, writes: bool, context: AdaptContext | None
    ) -> Iterator[psycopg.Connection]:
        service = place.service
        relay = Relay(service.host, service.port, _MOST_BYTES, limits.seconds + _GRACE_SECONDS)
        try:
            with self.logins.in_use(place.plane, service, writes=writes), relay, ExitStack() as stack:
                session = stack.enter_context(self._open(place, relay, limits, writes=writes, context=context))
                stack.push(lambda kind, *_: session.close() if kind else None)  # a rollback may have to wait
                yield session
        except (psycopg.Error, Error) as error:
            beyond = beyond_limits(relay, _MOST_BYTES, limits.seconds, may_have_run=writes)
            if beyond is None:
                raise
            raise beyond from error

    def _open(
        self, place: Place, relay: Relay, limits: Limits, *, writes: bool, context: AdaptContext | None
    ) -> psycopg.Connection:
        if "\0" in place.database:  # libpq would read no parameter behind it: neither sslmode nor the limits
            raise NoDatabase(place.service, place.database)
        options = _options(limits, writes=writes)
        try:
            try:
                return self._connect(place, relay, options, writes=writes, context=context)
            except psycopg.OperationalError as error:
                if _REFUSED_PASSWORD not in (error.sqlstate or "") and not _REFUSED_TEXT.search(str(error)):
                    raise
            self.logins.forget(place.plane, place.service, writes=writes)
            return self._connect(place, relay, options, writes=writes, context=context)
        except psycopg.Error as error:
            said = relay.reason(error)
            if error.sqlstate == _NO_DATABASE or _NO_DATABASE_TEXT.fullmatch(said):
                raise NoDatabase(place.service, place.database) from error
            wrong = f"{place.service.name} accepts no session in {place.database[:64]!r}: {said}"
            raise Unavailable("NO_SESSION", wrong, "Try again later.") from error

    def _connect(
        self, place: Place, relay: Relay, options: str, *, writes: bool, context: AdaptContext | None
    ) -> psycopg.Connection:
        """Connect by way of the relay. The server must prove that it knows the password, over this very TLS session."""
        service, made = place.service, self.logins.of_caller(place.plane, place.service, writes=writes)
        tls = place.plane.backend.host.has_tls(service.pg_major)
        host, port = relay.address
        return self.connect(
            host=service.host,
            hostaddr=host,
            port=port,
            user=made.login.role,
            password=made.password.reveal(),
            dbname=place.database,
            sslmode=ssl_mode(tls),
            channel_binding="require" if tls else "prefer",
            require_auth="scram-sha-256",
            gssencmode="disable",
            application_name="ramet console",
            client_encoding="UTF8",
            connect_timeout=30,
            autocommit=True,
            options=options,
            context=context,
        )


def _options(limits: Limits, *, writes: bool) -> str:
    settings = {
        "statement_timeout": f"{limits.seconds}s",
        "idle_in_transaction_session_timeout": "60s",
        "client_connection_check_interval": "5s",
        **({"role": ADMIN} if writes else {"default_transaction_read_only": "on"}),
        **limits.settings,
    }
    return " ".join(f"-c {name}={value}" for name, value in settings.items())
