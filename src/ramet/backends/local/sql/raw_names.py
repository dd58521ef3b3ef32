"""Names as bytes: those of roles and databases are in whatever encoding the database had in which they were made.

Text from a server whose bytes are no UTF-8 becomes a str with surrogates (PEP 383), and the same bytes again when it is
sent. `shown` makes of it what can be stored, sent to clients and logged.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from string import Formatter
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader

_ERRORS = "surrogateescape"
_NOT_CONVERTED = ("UTF8", "SQL_ASCII", "MULE_INTERNAL")
_TEXT_TYPES = ("text", "name", "varchar", "bpchar", '"char"', 0)
# PostgreSQL accepts no invalid UTF-8 in a statement, but a statement that it composes itself may contain some.
_BY_DIGEST = """(SELECT pg_catalog.quote_ident(name) FROM (SELECT rolname FROM pg_catalog.pg_roles
UNION ALL SELECT datname FROM pg_catalog.pg_database) AS known(name) WHERE pg_catalog.md5(name) = '{}' LIMIT 1)"""

Connection = psycopg.Connection[tuple[Any, ...]]


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return bytes(data).decode(errors=_ERRORS)


class _TextDumper(Dumper):
    def dump(self, obj: str) -> Buffer:
        if "\0" in obj:
            raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return encoded(obj)


def adapters() -> AdaptersMap:
    """Return how the platform's connections read and send text."""
    made = AdaptersMap(psycopg.adapters)
    for each in _TEXT_TYPES:
        made.register_loader(each, _TextLoader)
    made.register_dumper(str, _TextDumper)
    return made


def encoded(name: str) -> bytes:
    """Return the bytes that a server has for a name."""
    return name.encode(errors=_ERRORS)


def shown(name: str) -> str:
    r"""Return a name with \xff for each byte that is no UTF-8."""
    return encoded(name).decode(errors="backslashreplace")


def is_utf8(name: str) -> bool:
    """Tell whether a name is as any program would send it."""
    return shown(name) == name


def shown_values(row: Sequence[Any]) -> list[Any]:
    """Return the values of a row, with texts as `shown`."""
    return [shown(one) if isinstance(one, str) else one for one in row]


def convert_texts(connection: Connection) -> None:
    """Let the server send texts as UTF-8 from here on, where it can convert the encoding of the database."""
    if connection.info.parameter_status("server_encoding") not in _NOT_CONVERTED:
        connection.execute("SET client_encoding TO 'UTF8'")


def database_of(connection: Connection) -> str:
    """Return the name of the database of a connection."""
    return connection.pgconn.db.decode(errors=_ERRORS)


def connect(database: str, **parameters: Any) -> Connection:
    """Open a connection in autocommit mode in a database with any name, in which bytes are sent as they are."""
    if is_utf8(database):
        connection = psycopg.connect(dbname=database, autocommit=True, context=_ADAPTERS, **parameters)
    else:
        connection = _connect_by_bytes(database, parameters)
    if connection.info.parameter_status("server_encoding") != "UTF8":
        connection.execute("SET client_encoding TO 'SQL_ASCII'")
    return connection


def _connect_by_bytes(database: str, parameters: Mapping[str, Any]) -> Connection:
    """Connect without psycopg's own function, which encodes strictly."""
    name = encoded(database).replace(b"\\", rb"\\").replace(b"'", rb"\'")
    pgconn = pq.PGconn.connect(psycopg.conninfo.make_conninfo(**parameters).encode() + b" dbname='" + name + b"'")
    if pgconn.status != pq.ConnStatus.OK:
        message = pgconn.get_error_message()
        pgconn.finish()
        raise psycopg.OperationalError(message)
    connection: Connection = psycopg.Connection(pgconn)
    connection.autocommit = True
    connection._adapters = AdaptersMap(_ADAPTERS)
    return connection


def composed(
    connection: Connection, statement: str, names: Sequence[str], literals: Mapping[str, str | int | None]
) -> bytes:
    """Return a statement with `names` quoted for {}, and `literals` for {key}."""
    is_validated = connection.info.parameter_status("server_encoding") == "UTF8"
    if is_validated and not all(map(is_utf8, names)):
        return _composed_by_server(connection, statement, names, literals)
    return b"".join(part for part, _ in _parts(connection, statement, names, literals))


def _composed_by_server(
    connection: Connection, statement: str, names: Sequence[str], literals: Mapping[str, str | int | None]
) -> bytes:
    pieces = []
    for part, name in _parts(connection, statement, names, literals):
        if name is None or is_utf8(name):
            pieces.append(sql.Literal(part.decode()).as_bytes(connection))
        else:
            digest = hashlib.md5(encoded(name), usedforsecurity=False).hexdigest()
            pieces.append(_BY_DIGEST.format(digest).encode())
    body = b"BEGIN EXECUTE " + b" || ".join(pieces) + b"; END"
    return b"DO " + sql.Literal(body.decode()).as_bytes(connection)


def _parts(
    connection: Connection, statement: str, names: Sequence[str], literals: Mapping[str, str | int | None]
) -> Iterator[tuple[bytes, str | None]]:
    """Yield the parts of a statement, those that are names with the name itself."""
    left = iter(names)
    for text, field, _, _ in Formatter().parse(statement):
        yield encoded(text), None
        if field:
            yield sql.Literal(literals[field]).as_bytes(connection), None
        elif field is not None:
            name = next(left)
            # In the encodings that a database may have, no byte of another character is a quote.
            yield b'"' + encoded(name).replace(b'"', b'""') + b'"', name


_ADAPTERS = adapters()
