"""A source that publishes: sessions in it, what was read there, and what is made there."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.subscriptions import PublisherFacts
from ramet.backends.local.sources.examine import OWN_SCHEMA
from ramet.backends.local.sources.relay import PORT, open_short_relay
from ramet.backends.local.sql.connections import Connection, row, rows
from ramet.machine.waiting import wait_until
from ramet.model.passwords import Secret

_MOST_NAMES, _MOST_CHARACTERS = 200, 200
_END_SECONDS, _PAUSE_SECONDS = 15.0, 0.1
SESSION_SECONDS = 90.0  # more than the longest statement may take
_SETTINGS = "-c search_path=pg_catalog -c statement_timeout=60s -c lock_timeout=10s"
# Amazon RDS lets its role replicate without the attribute.
_BASIC = """
SELECT current_setting('server_version_num')::int / 10000, current_setting('wal_level'), pg_is_in_recovery(),
    rolsuper OR rolreplication
        OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'rds_replication' AND pg_has_role(r.oid, 'USAGE')),
    has_database_privilege(current_database(), 'CREATE'),
    current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots)::int,
    current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication)::int,
    (SELECT count(*) FROM pg_sequences)::int, (SELECT count(*) FROM pg_largeobject_metadata)::int
FROM pg_roles WHERE rolname = current_user
"""
_OURS = f"""n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', '{OWN_SCHEMA}') AND NOT EXISTS (
    SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')
"""
_TABLES = f"""
SELECT format('%I.%I', nspname, relname), pg_has_role(relowner, 'USAGE'), relpersistence = 'u',
    relkind = 'r' AND CASE relreplident WHEN 'f' THEN false WHEN 'n' THEN true
        WHEN 'd' THEN NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate)
        ELSE NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident) END
FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE relkind IN ('r', 'p') AND relpersistence <> 't' AND {_OURS} ORDER BY 1
"""  # noqa: S608 - all of it is ours
_MATERIALIZED_VIEWS = f"""
SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE relkind = 'm' AND {_OURS} ORDER BY 1 LIMIT {_MOST_NAMES}
"""  # noqa: S608 - all of it is ours
_PUBLISHED = f"""
SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE relkind IN ('r', 'p') AND relpersistence = 'p' AND NOT relispartition AND {_OURS} ORDER BY 1, 2
"""  # noqa: S608 - all of it is ours
# Made after the publication was, or taken out of it.
_NOT_PUBLISHED = f"""
SELECT format('%%I.%%I', nspname, relname) FROM pg_publication p, pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE pubname = %s AND relkind IN ('r', 'p') AND relpersistence = 'p' AND NOT relispartition AND {_OURS}
    AND NOT EXISTS (SELECT FROM pg_publication_rel WHERE prpubid = p.oid AND prrelid = c.oid)
ORDER BY 1 LIMIT {_MOST_NAMES}
"""  # noqa: S608 - all of it is ours
# Partitions are published under their own names, also those that are made later.
_PUBLISHED_NOW = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
FIND_SLOT = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s"
# Before version 13, slots have no wal_status, and lose no WAL.
_LAG = """
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int8,
    coalesce(to_jsonb(s) ->> 'wal_status', 'reserved')
FROM pg_replication_slots s WHERE slot_name = %s
"""
_IS_AHEAD = "SELECT confirmed_flush_lsn > pg_current_wal_insert_lsn() FROM pg_replication_slots WHERE slot_name = %s"
_PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY 1"
_INSERTED = """
SELECT pg_current_wal_insert_lsn()::text, setting::int * 3 / 1000.0 + 1
FROM pg_show_all_settings() WHERE name = 'wal_writer_delay'
"""
_IS_FLUSHED = "SELECT pg_current_wal_flush_lsn() >= %s::text::pg_lsn"
_SEQUENCES = f"""
SELECT nspname, relname, has_schema_privilege(n.oid, 'USAGE') AND has_sequence_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE relkind = 'S' AND relpersistence <> 't' AND {_OURS} ORDER BY 1, 2
"""  # noqa: S608 - all of it is ours
_LEFT = """
SELECT greatest(0, pg_wal_lsn_diff(%s::pg_lsn, confirmed_flush_lsn))::int8 FROM pg_replication_slots
WHERE slot_name = %s
"""
# pg_sequences shows no value for a sequence that was set without being used, as RESTART and setval(…, false) do.
_VALUE = sql.SQL("SELECT {}::text, {}::text, last_value, is_called FROM {}")
_SEQUENCES_AT_ONCE = 500


@contextlib.contextmanager
def open_session(source: SourceAddress, password: Secret, seconds: float = SESSION_SECONDS) -> Iterator[Connection]:
    """Open a session in a source, through a relay that speaks TLS and ends it after a time. Raises psycopg.Error."""
    with tempfile.TemporaryDirectory(prefix="ramet-") as name, open_short_relay(source, Path(name), seconds) as relay:
        try:
            with psycopg.connect(
                host=name, port=PORT, user=source.user, password=password.reveal(), dbname=source.database,
                sslmode="disable", gssencmode="disable", passfile="/nonexistent", client_encoding="UTF8",
                application_name="ramet follow", connect_timeout=15, autocommit=True, options=_SETTINGS,
            ) as connection:  # fmt: skip
                yield connection
        except psycopg.OperationalError as error:
            if relay.problem is None:
                raise
            raise psycopg.OperationalError(relay.problem) from error


def read_facts(connection: Connection) -> PublisherFacts:
    """Return what a subscription to this database depends on."""
    major, level, is_standby, replicates, publishes, slots, senders, sequences, objects = row(connection, _BASIC)
    tables = rows(connection, _TABLES)
    published = [one for one in tables if not one[2]]
    return PublisherFacts(
        major=major,
        wal_level=level,
        is_standby=is_standby,
        may_replicate=replicates,
        may_publish=publishes,
        free_slots=slots,
        free_senders=senders,
        sequence_count=sequences,
        large_object_count=objects,
        not_owned=tuple(name for name, is_owned, _, _ in published if not is_owned)[:_MOST_NAMES],
        without_identity=tuple(name for name, _, _, lacks in published if lacks)[:_MOST_NAMES],
        unlogged=tuple(name for name, _, is_unlogged, _ in tables if is_unlogged)[:_MOST_NAMES],
        materialized_views=tuple(name for (name,) in rows(connection, _MATERIALIZED_VIEWS)),
    )


class SequenceValue(NamedTuple):
    """A sequence with its last value, or the next one where it `is_called` no value yet."""

    schema: str
    name: str
    last: int
    is_called: bool


def _bounded(names: Iterable[str]) -> list[str]:
    """Return names that a source has sent as they may be shown: one that is hostile bounds neither."""
    return [" ".join(str(name).split())[:_MOST_CHARACTERS] for name in islice(names, _MOST_NAMES)]


@dataclass(frozen=True)
class Publisher:
    """The publication and the slot of one service in a source; both have this name."""

    connection: Connection
    name: str

    def publish(self) -> None:
        """Make both unless they exist."""
        made = self.connection.execute("SELECT FROM pg_publication WHERE pubname = %s", (self.name,)).fetchone()
        if made is None:
            tables = [sql.Identifier(*row) for row in self.connection.execute(_PUBLISHED.encode()).fetchall()]
            command = sql.SQL("CREATE PUBLICATION {}").format(sql.Identifier(self.name))
            if tables:
                command += sql.SQL(" FOR TABLE {}").format(sql.SQL(", ").join(tables))
            self.connection.execute(command)
        if self.connection.execute(FIND_SLOT, (self.name,)).fetchone() is None:
            self.connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self.name,))

    def lag(self) -> tuple[int | None, str | None]:
        """Return the bytes that are not confirmed yet, and the slot's wal_status; None: there is no slot."""
        row = self.connection.execute(_LAG, (self.name,)).fetchone()
        return (None, None) if row is None else (row[0], row[1])

    def has_lost_wal(self) -> bool:
        """Tell whether the subscriber has confirmed WAL that is not in the source: until it is, no commit is sent."""
        return self.connection.execute(_IS_AHEAD, (self.name,)).fetchone() == (True,)

    def not_published(self) -> list[str]:
        """Return the tables of the source that it does not publish."""
        return _bounded(name for (name,) in self.connection.execute(_NOT_PUBLISHED, (self.name,)).fetchall())

    def not_received(self, subscribed: Set[tuple[str, str]]) -> list[str]:
        """Return the tables that are published, and of which the subscription, which has these, ignores all changes."""
        published = self.connection.execute(_PUBLISHED_NOW, (self.name,)).fetchall()
        return _bounded(f"{schema}.{name}" for schema, name in published if (schema, name) not in subscribed)

    def prepared_transactions(self) -> list[str]:
        """Return the prepared transactions of the database, which are sent when they are committed."""
        return _bounded(name for (name,) in self.connection.execute(_PREPARED.encode()).fetchall())

    def position(self) -> str:
        """Return the end of all that the source has committed, which is flushed by then.

        With synchronous_commit = off that takes three times wal_writer_delay (PostgreSQL 18 docs, 28.4); what is not
        flushed after that is no commit.
        """
        end, seconds = row(self.connection, _INSERTED)
        if wait_until(lambda: bool(row(self.connection, _IS_FLUSHED, end)[0]), float(seconds), _PAUSE_SECONDS):
            return str(end)
        return str(row(self.connection, "SELECT pg_current_wal_flush_lsn()::text")[0])

    def has_confirmed(self, lsn: str) -> bool:
        """Tell whether the subscriber has applied all before a position."""
        query = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
        return self.connection.execute(query, (lsn, self.name)).fetchone() == (True,)

    def bytes_until(self, lsn: str) -> int | None:
        """Return how much WAL before a position the subscriber has not applied; None: there is no slot."""
        row = self.connection.execute(_LEFT, (lsn, self.name)).fetchone()
        return None if row is None else row[0]

    def sequences(self) -> list[SequenceValue]:
        """Return the values of all sequences that the role may read."""
        found = rows(self.connection, _SEQUENCES)
        values = [_VALUE.format(one, two, sql.Identifier(one, two)) for one, two, may_read in found if may_read]
        chunks = [values[n : n + _SEQUENCES_AT_ONCE] for n in range(0, len(values), _SEQUENCES_AT_ONCE)]
        queries = [sql.SQL(" UNION ALL ").join(chunk) for chunk in chunks]
        return [SequenceValue(*row) for query in queries for row in self.connection.execute(query).fetchall()]

    def hidden_sequences(self) -> list[str]:
        """Return the sequences that the role may not read."""
        found = rows(self.connection, _SEQUENCES)
        return _bounded(f"{schema}.{name}" for schema, name, may_read in found if not may_read)

    def remove(self) -> None:
        """Drop both, if they exist, and end the session of a subscriber that still reads."""
        drop_slot(self.connection, self.name)
        self.connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(self.name)))


def drop_slot(connection: Connection, name: str) -> None:
    """Drop a slot, if it exists, and end the session that uses it. Raises psycopg.errors.ObjectInUse."""
    if not wait_until(lambda: _is_dropped(connection, name), _END_SECONDS, _PAUSE_SECONDS):
        raise psycopg.errors.ObjectInUse(f"the slot {name} is still in use")


def _is_dropped(connection: Connection, name: str) -> bool:
    """Drop the slot, or end the session that uses it; whoever lives may be back before the drop."""
    row = connection.execute(FIND_SLOT, (name,)).fetchone()
    if row is None:
        return True
    if row[0] is not None:
        connection.execute("SELECT pg_terminate_backend(%s)", (row[0],))
    with contextlib.suppress(psycopg.errors.ObjectInUse):
        connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
        return True
    return False
