"""One SQL statement in a database of a service, within limits of time, bytes, rows and characters."""

import json
import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from ramet.api.schemas.services import Service
from ramet.cli.connection import read_any_text
from ramet.errors import Error, Failed
from ramet.kits.mcp.callers import Caller
from ramet.kits.mcp.space import Space
from ramet.workbench.relay import Relay, beyond_limits
from ramet.workbench.remedies import remedy_for
from ramet.workbench.statements import (
    PREPARED,
    Complaint,
    StatementRefused,
    prepared_columns,
    unknown_outcome,
    without_prepared,
)

MOST_ROWS = 1000
MOST_SECONDS = 600
_MOST_BYTES = 16 * 1024**2
GRACE_SECONDS = 30
_TEXTS = ("date", "time", "timetz", "timestamp", "timestamptz", "interval", "numeric", "bytea")
_TO_WRITE = "Queries are read-only by default. Fork the service, and use execute in the fork."
_FOR_LONGER = "Give a larger timeout_seconds, or ask for less."


@contextmanager
def open_session(caller: Caller, service: Service, seconds: float, *, read_only: bool) -> Iterator[psycopg.Connection]:
    """Yield a session of a login of the caller. With `read_only` neither its role nor its transactions can write.

    Raises Failed where there is no session, Invalid for what PostgreSQL refuses in it, and TooLarge and Unavailable
    when it has read too much, is not over half a minute after `seconds`, or was lost while it could write.
    """
    endpoint = service.endpoint
    relay = Relay(endpoint.host, endpoint.port, _MOST_BYTES, seconds + GRACE_SECONDS)
    try:
        with relay, closing(_begun(caller, service, relay, seconds, read_only=read_only)) as session:
            yield session
    except psycopg.Error as error:
        beyond = beyond_limits(relay, _MOST_BYTES, seconds, may_have_run=not read_only)
        unknown = None if read_only else unknown_outcome(error)
        raise beyond or unknown or _refusal(error) from error


def _begun(caller: Caller, service: Service, relay: Relay, seconds: float, *, read_only: bool) -> psycopg.Connection:
    try:
        return _connect(caller, service, relay, seconds, read_only=read_only)
    except psycopg.Error as error:
        wrong = f"{service.name} accepts no session: {relay.reason(error)}"
        raise Failed("NO_SESSION", wrong, "Wait for it to be READY.") from error


def run_statement(session: psycopg.Connection, statement: str, most_rows: int) -> dict[str, Any]:
    """Run one statement, and return its columns and rows for JSON; what is beyond the limits is left out."""
    columns = [one.name for one in prepared_columns(session, statement)]
    if not columns:
        status = session.execute(statement.encode(), prepare=True).statusmessage
        if status == PREPARED and not session.autocommit:
            raise without_prepared(session)
        return {"status": status}
    rows, is_cut = _rows_of(session, statement, most_rows)
    found: dict[str, Any] = {"columns": columns, "rows": rows}
    if is_cut:
        found["truncated"] = f"There are more rows than these {len(rows)}: narrow the query, or aggregate in SQL."
    return found


def _rows_of(session: psycopg.Connection, statement: str, most_rows: int) -> tuple[list[list[Any]], bool]:
    """Return the rows of a statement, and whether some are left out."""
    rows: list[list[Any]] = []
    space, is_cut = Space(), False
    with session.cursor() as cursor:
        for row in cursor.stream(statement.encode()):
            if len(rows) < most_rows and not space.is_used_up:
                rows.append([space.fit(_shown(value)) for value in row])
            elif not session.autocommit:
                return rows, True
            else:  # to stop here would undo what the statement writes
                is_cut = True
    return rows, is_cut


def _connect(caller: Caller, service: Service, relay: Relay, seconds: float, *, read_only: bool) -> psycopg.Connection:
    lasting = seconds + GRACE_SECONDS
    uri = caller.login(service, lasting, read_only=read_only)
    try:
        session = _open(uri, relay, seconds, read_only=read_only)
    except psycopg.OperationalError:
        caller.forget_logins(service.service_id)
        session = _open(caller.login(service, lasting, read_only=read_only), relay, seconds, read_only=read_only)
    for name in _TEXTS:
        session.adapters.register_loader(name, TextLoader)
    read_any_text(session, _TEXTS)
    if read_only:
        session.read_only = True
    else:
        session.autocommit = True
    return session


def _open(uri: str, relay: Relay, seconds: float, *, read_only: bool) -> psycopg.Connection:
    host, port = relay.address
    settings = {
        "statement_timeout": f"{math.ceil(seconds * 1000)}",
        "idle_in_transaction_session_timeout": "60s",
        **({"default_transaction_read_only": "on"} if read_only else {}),
    }
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return psycopg.connect(
        uri,
        hostaddr=host,
        port=port,
        options=options,
        client_encoding="UTF8",  # else a database without an encoding (SQL_ASCII) has bytes for psycopg
        connect_timeout=30,
        application_name="ramet mcp",
    )


def _shown(value: object) -> Any:
    """Return a value as JSON has it: a text, unless it is a number, a boolean or null."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _refusal(error: psycopg.Error) -> Error:
    space, said = Space(), error.diag.message_primary or str(error).strip()
    remedy = remedy_for(error, to_write=_TO_WRITE, for_longer=_FOR_LONGER)
    return StatementRefused(Complaint(error.sqlstate or "", space.cut(said), hint=space.cut(remedy)))
