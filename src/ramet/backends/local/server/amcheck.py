"""Check all data of a temporary server for corruption with the extension amcheck.

A failing function of an index expression is no corruption: then the index is checked without comparing it with its
table. One of an operator class is none either: then the index is not checked.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import closed_databases, connections, prepared_transactions
from ramet.backends.local.sql.connections import Connection, Database
from ramet.backends.local.sql.raw_names import shown
from ramet.backends.local.sql.tenant_code import Allowance, message_of, search_paths
from ramet.errors import Unavailable

_SHOWN_FAULTS, _SHOWN_CHARACTERS = 20, 4000
_DAMAGE_CLASSES = ("XX", "58")  # internal errors and corruption; errors of the system
_SERVER_CLASSES = ("08", "53", "57P")  # lost connections, insufficient resources, and shutdowns
# An index is checked with a lock that waits for VACUUM, and for one against wraparound until that ends.
_SETTINGS = {"statement_timeout": "0", "lock_timeout": "10min"}
_GIVEN_UP = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled)
_log = logging.getLogger(__name__)

# An index whose operator class compares by functions in a language for tenants, itself or those of an element's type.
_COMPARES_BY_FUNCTIONS = """
EXISTS (SELECT FROM pg_opclass o JOIN pg_type t ON t.oid = opcintype
    WHERE o.oid = ANY (indclass) AND (o.oid >= 16384 OR typtype = 'p'))
AND EXISTS (SELECT FROM pg_amproc JOIN pg_proc p ON p.oid = amproc JOIN pg_language l ON l.oid = prolang
    WHERE lanname NOT IN ('internal', 'c'))
"""
# What pg_amcheck checks: tables with their TOAST, and B-tree indexes, without temporary tables.
_RELATIONS = f"""
SELECT c.oid, c.relname, c.relkind = 'i', coalesce(indrelid, 0), {_COMPARES_BY_FUNCTIONS},
    coalesce(indexprs IS NOT NULL OR indpred IS NOT NULL, false)
FROM pg_class c JOIN pg_am a ON a.oid = c.relam LEFT JOIN pg_index i ON i.indexrelid = c.oid
WHERE relpersistence <> 't' AND (
    (relkind IN ('r', 'm', 't') AND amname = 'heap')
    OR (relkind = 'i' AND amname = 'btree' AND indisready AND indisvalid AND indislive)
)
ORDER BY 5, 6, 1
"""  # noqa: S608 - all of it is ours
# A schema in which nobody can create anything. What refers to the functions does so by oid.
_SET_ASIDE = """
UPDATE pg_proc SET pronamespace = '99' WHERE pronamespace = '11'
AND proname = ANY ('{bt_index_check,bt_index_parent_check,gin_index_check,verify_heapam}'::name[])
"""


@dataclass(frozen=True)
class _Relation:
    oid: int
    name: str
    is_index: bool
    table: int
    compares_by_functions: bool
    has_functions: bool


def read_all(paths: ServicePaths, allowance: Allowance, enter: Callable[[], object] = lambda: None) -> str:
    """Check every table and index of all databases; return the corruption found, or an empty text.

    `enter` is called before each database.

    What was found before the server ends is returned: the damage itself may have ended it. Where nothing was found,
    raises Unavailable when the server ends, and psycopg.Error when it has no room or memory for this, or prepared
    transactions cannot be rolled back now: none of these says anything of the data.
    """
    found: list[str] = []
    try:
        for fault in _faults(paths, allowance, enter):
            found.append(fault)
    except (Unavailable, psycopg.Error) as error:
        if not found:
            raise
        _log.warning("not all data of service %s was checked: %s", paths.service_id, error)
    return "\n".join(found)[:_SHOWN_CHARACTERS]


def _faults(paths: ServicePaths, allowance: Allowance, enter: Callable[[], object]) -> Iterator[str]:
    try:
        with connections.connect(paths) as connection:
            known = connections.databases(connection, with_templates=True)
            # Their locks would prevent reading tables, and entering a database that one of another database renames.
            prepared_transactions.roll_back(paths, connection, known, prepared_transactions.find(connection))
    except psycopg.Error as error:
        if _is_of_server(error) or isinstance(error, _GIVEN_UP):
            raise
        yield shown(str(error))
        return
    for database in known:
        if not database.is_invalid:
            enter()
            yield from _database(paths, database, allowance)


def _refusal(paths: ServicePaths, database: Database) -> str | None:
    """Return why a database cannot be entered though the server runs, as with a damaged pg_filenode.map.

    A server that has just been killed refuses all until it has recovered, so a database that is refused is tried again.
    """
    refusal = None
    for _ in range(2):
        try:
            with closed_databases.entered(paths, database, **_SETTINGS):
                return None
        except Unavailable as error:
            if isinstance(error.__cause__, psycopg.errors.ConnectionTimeout):
                raise
            refusal = str(error.details)
            with connections.connect(paths):
                pass  # raises Unavailable if the server is lost, which says nothing of the data
    return refusal


def _database(paths: ServicePaths, database: Database, allowance: Allowance) -> Iterator[str]:
    relations: list[_Relation] | None = None
    try:
        if refusal := _refusal(paths, database):
            yield shown(f"{database.name}: {refusal}")
            return
        while relations is None or relations:
            with closed_databases.entered(paths, database, **_SETTINGS) as connection:
                checking = _Checking(paths, database, connection, allowance)
                if relations is None:
                    _renew_extension(connection)
                    relations = [_Relation(*row) for row in connection.execute(_RELATIONS.encode())]
                while relations and not connection.broken:
                    relation = relations.pop(0)
                    yield from (shown(f"{database.name}.{relation.name}: {one}") for one in checking.faults(relation))
    except _GIVEN_UP as error:
        _log.warning("database %s of service %s was not checked: %s", database.name, paths.service_id, error)
    except psycopg.Error as error:
        if _is_of_server(error):
            raise
        yield shown(f"{database.name}: {error}")


def _renew_extension(connection: Connection) -> None:
    """Install amcheck in its newest version, where no tenant can create a function of the same name.

    What is dropped with an installed one, such as a view, calls it: the data are those of a server that is thrown away.
    Functions of the same names may be in pg_catalog where the source of a standby lets a role create some there.
    """
    connection.execute("DROP EXTENSION IF EXISTS amcheck CASCADE")
    connection.execute(_SET_ASIDE)
    connection.execute("CREATE EXTENSION amcheck WITH SCHEMA pg_catalog")


@dataclass(frozen=True)
class _Checking:
    paths: ServicePaths
    database: Database
    connection: Connection
    allowance: Allowance

    def faults(self, relation: _Relation) -> Iterator[str]:
        """Yield the corruption of a relation."""
        try:
            if not relation.is_index:
                yield from self._table(relation)
            elif relation.has_functions or relation.compares_by_functions:
                self._index_with_functions(relation)
            else:
                self._index(relation, compared=True)
        except _GIVEN_UP as error:
            _log.warning(
                "%s of service %s was not checked: %s", relation.name, self.paths.service_id, message_of(error)
            )
        except psycopg.Error as error:
            if _is_of_server(error):
                raise
            yield message_of(error)

    # A function of a tenant in pg_catalog is called instead if only that has arguments of the very types.
    def _table(self, relation: _Relation) -> Iterator[str]:
        query = (
            "SELECT blkno, offnum, msg FROM pg_catalog.verify_heapam("
            "relation => {oid}::pg_catalog.oid::pg_catalog.regclass, on_error_stop => false, check_toast => true,"
            " skip => 'none'::pg_catalog.text, startblock => NULL::pg_catalog.int8, endblock => NULL::pg_catalog.int8)"
            " LIMIT {limit}"
        )
        found = connections.query(self.connection, query, oid=relation.oid, limit=_SHOWN_FAULTS)
        for block, offset, message in found:
            yield f"block {block}, offset {offset}: {message}"

    def _index(self, relation: _Relation, *, compared: bool) -> None:
        query = "SELECT pg_catalog.bt_index_parent_check({oid}::pg_catalog.oid::pg_catalog.regclass, {compared})"
        connections.run(self.connection, query, oid=relation.oid, compared=compared)

    def _index_with_functions(self, relation: _Relation) -> None:
        """Check an index, and compare it with its table unless its owner's functions fail.

        One that compares by such functions cannot be checked at all without them.
        """
        damage: psycopg.Error | None = None
        for path in search_paths(self.connection, relation.table):
            try:
                with self.allowance.statement(self.paths, self.connection, path):
                    self._index(relation, compared=True)
            except TimeoutError as error:
                self._note(relation, str(error))
                break
            except psycopg.Error as error:
                self._note(relation, message_of(error))
                damage = error if _is_damage(error) else damage
                if self.connection.broken or isinstance(error, psycopg.errors.QueryCanceled):
                    break
            else:
                return
        if not relation.compares_by_functions:
            self._structure(relation)
        if damage is not None:
            raise damage

    def _structure(self, relation: _Relation) -> None:
        if self.connection.broken:
            with closed_databases.entered(self.paths, self.database, **_SETTINGS) as fresh:
                _Checking(self.paths, self.database, fresh, self.allowance)._index(relation, compared=False)
        else:
            self._index(relation, compared=False)

    def _note(self, relation: _Relation, reason: str) -> None:
        _log.info("index %s of service %s was not compared: %s", relation.name, self.paths.service_id, reason)


def _is_damage(error: psycopg.Error) -> bool:
    """Tell whether amcheck or PostgreSQL reports an error, and not a function that the index calls."""
    state = error.sqlstate or ""
    return state.startswith(_DAMAGE_CLASSES) and error.diag.context is None


def _is_of_server(error: psycopg.Error) -> bool:
    """Tell whether a session has ended, or the server has no storage, memory or connections left."""
    is_lost = error.sqlstate is None and isinstance(error, psycopg.OperationalError)
    return is_lost or (error.sqlstate or "").startswith(_SERVER_CLASSES)
