"""One SQL statement: its columns and rows as text, within limits, or what PostgreSQL has to say against it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import capabilities, generators, sql
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.errors import Diagnostic, error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from ramet.errors import Invalid, Unavailable
from ramet.workbench.remedies import FOR_LONGER, MAY_HAVE_RUN, remedy_for

_EXPLAIN = "EXPLAIN "
_CHUNK_ROWS = 64
_MOST_NOTICES = 20
_LONGEST_NOTICE = 1000
_LOST = "08006"  # what libpq says without an SQLSTATE
_SESSION_ENDED = ("08", "57P")  # SQLSTATEs of a lost connection, and of a server that ends it
PREPARED = "PREPARE TRANSACTION"
"""The tag of a command that leaves a transaction behind, also in a transaction that only reads."""
_OWN_PREPARED = """
SELECT gid FROM pg_catalog.pg_prepared_xacts
WHERE owner OPERATOR(pg_catalog.=) session_user AND database OPERATOR(pg_catalog.=) pg_catalog.current_database()
"""
_NUMBERS = ("smallint", "integer", "bigint", "numeric", "real", "double precision", "money")
_TYPES = """
SELECT pg_catalog.format_type(o, m)
FROM ROWS FROM (pg_catalog.unnest(%s::pg_catalog.oid[]), pg_catalog.unnest(%s::pg_catalog.int4[])) AS f (o, m)
"""


@dataclass(frozen=True)
class Amount:
    """How much of a result is kept: rows, cells, bytes of one value, and bytes of all. None: whatever comes."""

    rows: int
    cells: int | None = 20_000
    value_bytes: int | None = 2_000
    all_bytes: int | None = 1_000_000


@dataclass(frozen=True)
class Column:
    """A column of a result."""

    name: str
    type: str

    @property
    def is_number(self) -> bool:
        """Tell whether its values are numbers."""
        return self.type.partition("(")[0] in _NUMBERS


@dataclass(frozen=True)
class Described:
    """A column as the server describes it: its name, the oid of its type, and the modifier of that."""

    name: str
    oid: int
    modifier: int


@dataclass(frozen=True)
class Value:
    """A value as text; of one that is cut off, `bytes` is what it has altogether, or 0 where that is not known."""

    text: str
    bytes: int
    is_cut: bool = False

    def __str__(self) -> str:
        return self.text


Row = Sequence[Value | None]


@dataclass(frozen=True)
class Result:
    """What a statement returned. One without columns returns no rows, and has the `status` of a command."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    is_cut: bool
    status: str
    notices: Sequence[str]
    seconds: float


@dataclass(frozen=True)
class Complaint:
    """What PostgreSQL says of a statement. `line`, `column` and `excerpt` say where, if it knows; from 1."""

    sqlstate: str
    message: str
    detail: str = ""
    hint: str = ""
    context: str = ""
    line: int = 0
    column: int = 0
    excerpt: str = ""


class StatementRefused(Invalid):
    """PostgreSQL did not carry out a statement."""

    def __init__(self, complaint: Complaint) -> None:
        where = f", {complaint.sqlstate}" if complaint.sqlstate else ""
        super().__init__(
            "STATEMENT_REFUSED", f"PostgreSQL refused the statement{where}: {complaint.message}", complaint.hint
        )
        self.complaint = complaint


class _Text(Loader):
    """Every value as PostgreSQL writes it, whatever its type; what is not UTF-8 is replaced."""

    def load(self, data: Buffer) -> str:
        return bytes(data).decode(errors="replace")


def _texts() -> AdaptersMap:
    """Return adapters with which every value is a text."""
    found = AdaptersMap(psycopg.adapters)
    for oid in {0, *(oid for known in psycopg.adapters.types for oid in (known.oid, known.array_oid))}:
        found.register_loader(oid, _Text)
    return found


TEXTS = _texts()
"""The context of sessions whose results are shown."""


def explain(session: psycopg.Connection, statement: str, amount: Amount) -> Result:
    """Return the plan of a statement. Raises StatementRefused, with positions in the statement itself."""
    return run(session, statement, amount, writes=False, prefix=_EXPLAIN)


def run(session: psycopg.Connection, statement: str, amount: Amount, *, writes: bool, prefix: str = "") -> Result:
    """Run one statement: in a read-only transaction, or, if it `writes`, in one that commits by itself.

    Raises StatementRefused, and Unavailable where it may have been committed all the same.
    """
    notices: list[str] = []
    whole = prefix + statement
    session.add_notice_handler(lambda one: _note(one, notices))
    session.autocommit = writes
    session.read_only = None if writes else True
    begun = time.monotonic()
    try:
        oids, columns = prepared_columns(session, whole), []
        if oids:
            columns = _columns(session, oids)
            rows, is_cut = _rows(session, whole, amount, len(columns), drains=writes)
            status = ""
        else:
            rows, is_cut = [], False
            status = session.execute(whole.encode(), prepare=True).statusmessage or ""
            if status == PREPARED and not writes:
                raise without_prepared(session)
    except psycopg.Error as error:
        unknown = unknown_outcome(error) if writes else None
        raise unknown or StatementRefused(_complaint(error, statement, len(prefix))) from error
    return Result(columns, rows, is_cut, status, notices, time.monotonic() - begun)


def unknown_outcome(error: psycopg.Error) -> Unavailable | None:
    """Return what to say of a statement that writes, whose session ended before its answer; None for other errors."""
    if not isinstance(error, psycopg.OperationalError) or not (error.sqlstate or _LOST).startswith(_SESSION_ENDED):
        return None
    if error.diag.severity_nonlocalized == "ERROR":  # of another server, as dblink says; that of the session is FATAL
        return None
    said = _shortened(error.diag.message_primary or str(error).strip())
    wrong = f"The session ended before PostgreSQL said what became of the statement: {said}"
    return Unavailable("SESSION_LOST", wrong, MAY_HAVE_RUN)


def without_prepared(session: psycopg.Connection) -> Invalid:
    """Roll back what a login that only reads has prepared, which would stay without its session; return a refusal."""
    session.autocommit, session.read_only = True, None
    for (gid,) in session.execute(_OWN_PREPARED).fetchall():
        session.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
    return Invalid("STATEMENT_REFUSED", "A transaction that only reads cannot be prepared", "It was rolled back.")


def prepared_columns(session: psycopg.Connection, statement: str) -> list[Described]:
    """Return the columns that a statement returns; none for one that returns no rows. Raises Invalid, psycopg's errors.

    PostgreSQL prepares one statement at a time: no second one can stand behind a COMMIT.
    """
    if "\0" in statement:
        raise Invalid("STATEMENT_REFUSED", "The statement contains a character with the code zero", "Leave it out.")
    session.pgconn.send_prepare(b"", statement.encode())
    _sent(session)
    session.pgconn.send_describe_prepared(b"")
    made = _sent(session)
    return [
        Described((made.fname(n) or b"").decode(errors="replace"), made.ftype(n), made.fmod(n))
        for n in range(made.nfields)
    ]


def _sent(session: psycopg.Connection) -> PGresult:
    """Return the answer to what was sent. Waiting in libpq instead would stop all threads of this process."""
    made: PGresult = session.wait(generators.execute(session.pgconn))[-1]
    if made.status != ExecStatus.COMMAND_OK:
        raise error_from_result(made)
    return made


def _complaint(error: psycopg.Error, statement: str, before: int) -> Complaint:
    """Return what PostgreSQL says of a statement, which it got after `before` other characters."""
    diag = error.diag
    said = diag.message_primary or str(error).strip()
    hint = remedy_for(error, to_write="", for_longer=FOR_LONGER)
    if not error.sqlstate and said.startswith("COPY"):
        said, hint = "COPY to or from the client is not possible here", "Select the rows, and download them as CSV."
    line, column, excerpt = _place(statement, diag, before)
    return Complaint(
        error.sqlstate or "",
        said,
        diag.message_detail or "",
        hint,
        _shortened(diag.context or ""),
        line,
        column,
        excerpt,
    )


def _place(statement: str, diag: Diagnostic, before: int) -> tuple[int, int, str]:
    position = int(diag.statement_position or 0) - before
    if not 0 < position <= len(statement) + 1:
        return 0, 0, ""
    start = statement.rfind("\n", 0, position - 1) + 1
    column = position - start
    end = statement.find("\n", position - 1)
    text = statement[start : len(statement) if end < 0 else end].replace("\t", " ")
    left = max(0, column - 40)
    return statement.count("\n", 0, position - 1) + 1, column, f"{text[left : left + 80]}\n{' ' * (column - left - 1)}^"


def _columns(session: psycopg.Connection, found: Sequence[Described]) -> list[Column]:
    oids, modifiers = [one.oid for one in found], [one.modifier for one in found]
    types = session.execute(_TYPES, (oids, modifiers)).fetchall()
    return [Column(one.name, str(name)) for one, (name,) in zip(found, types, strict=True)]


def _rows(
    session: psycopg.Connection, statement: str, amount: Amount, width: int, *, drains: bool
) -> tuple[list[Row], bool]:
    """Return the rows of a statement, and whether some are left out; with `drains` it runs to its end all the same."""
    rows: list[Row] = []
    most, left, is_cut = _most_rows(amount, width), amount.all_bytes, False
    for row in _streamed(session, statement):
        if len(rows) < most and (left is None or left > 0):
            shown = [_shown(value, amount.value_bytes) for value in row]
            rows.append(shown)
            left = None if left is None else left - sum(len(one.text) for one in shown if one)
        else:
            is_cut = True
            if not drains:
                break
    return rows, is_cut


def _streamed(session: psycopg.Connection, statement: str) -> Iterator[Sequence[str | None]]:
    with session.cursor() as cursor:
        yield from cursor.stream(statement.encode(), size=_CHUNK_ROWS if capabilities.has_stream_chunked() else 1)


def _most_rows(amount: Amount, width: int) -> int:
    return amount.rows if amount.cells is None else max(1, min(amount.rows, amount.cells // width))


def _shown(text: str | None, most: int | None) -> Value | None:
    if text is None:
        return None
    if most is None or len(text) <= most:
        return Value(text, len(text))
    return Value(text[:most], len(text.encode()), is_cut=True)


def _note(said: Diagnostic, notices: list[str]) -> None:
    if len(notices) < _MOST_NOTICES:
        notices.append(_shortened(f"{said.severity}: {said.message_primary}"))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_NOTICE else f"{text[:_LONGEST_NOTICE]}…"
