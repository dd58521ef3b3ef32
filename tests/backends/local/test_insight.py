"""What a real server tells of its clients, and what it does not."""

import threading
from typing import Any

import pytest

from harness.waiting import eventually
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, raw_names, statement_statistics
from ramet.backends.local.sql.connections import DATABASE, value
from ramet.errors import Unavailable
from tests.backends.contract.grounds import on_this_host
from tests.backends.local.hosts import boot, connect, new_server


def test_who_blocks_whom_is_shown_without_passwords_and_without_running_code_of_tenants() -> None:
    with on_this_host() as ground:
        server = ground.create()
        password, insight = ground.passwords[server.service_id], ground.backend.insight
        with connect(server, password) as holder, connect(server, password) as waiter:
            holder.autocommit = waiter.autocommit = True
            holder.execute("CREATE ROLE app LOGIN PASSWORD 'hunter2hunter2'")
            holder.execute("CREATE TABLE ran (at int)")
            holder.execute("CREATE SCHEMA trap")
            holder.execute(
                "CREATE FUNCTION trap.now() RETURNS timestamptz LANGUAGE plpgsql AS"
                " $$ BEGIN INSERT INTO ran VALUES (1); RETURN pg_catalog.now(); END $$"
            )
            holder.execute("CREATE VIEW trap.pg_stat_statements AS SELECT trap.now()")
            holder.execute("CREATE VIEW trap.pg_stat_activity AS SELECT trap.now()")
            holder.execute("ALTER DATABASE tsdb SET search_path = trap, pg_catalog, public")
            holder.execute("BEGIN")
            holder.execute("LOCK TABLE ran")
            waiting = threading.Thread(target=waiter.execute, args=("SELECT 'hunter2' FROM ran",))
            waiting.start()
            try:
                eventually(lambda: bool(insight.activity(server, 50)[0].blocked_by))
                first, second = insight.activity(server, 2)
            finally:
                holder.execute("ROLLBACK")
                waiting.join()
            assert (first.pid, list(first.blocked_by)) == (waiter.info.backend_pid, [holder.info.backend_pid])
            assert (first.text, str(first.waits_for).partition(":")[0]) == ("SELECT '…' FROM ran", "Lock")
            assert (second.pid, second.state, second.text) == (
                holder.info.backend_pid, "idle in transaction", "LOCK TABLE ran",
            )  # fmt: skip
            statements = insight.statements(server, 200)
            assert any(one.text.startswith("CREATE ROLE app") for one in statements)
            assert "hunter2" not in repr((statements, first, second))
            assert holder.execute("SELECT count(*) FROM public.ran").fetchone() == (0,)


_EXCHANGE = """
ALTER SCHEMA public RENAME TO elsewhere;
CREATE SCHEMA public;
CREATE SEQUENCE public.ran;
CREATE FUNCTION public.trap() RETURNS SETOF elsewhere.pg_stat_statements IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM nextval('public.ran'); END $$;
CREATE VIEW public.pg_stat_statements AS SELECT NULL::elsewhere.pg_stat_statements AS s, * FROM public.trap();
CREATE FUNCTION public.made(public.pg_stat_statements) RETURNS elsewhere.pg_stat_statements LANGUAGE sql
    AS 'SELECT t FROM public.trap() t';
CREATE CAST (public.pg_stat_statements AS elsewhere.pg_stat_statements) WITH FUNCTION public.made AS IMPLICIT
"""


def test_no_view_of_a_tenant_is_read_that_gets_the_name_of_the_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_this_host() as ground:
        server = ground.create()
        with connect(server, ground.passwords[server.service_id]) as client:
            client.autocommit = True
            composed = raw_names.composed

            def exchange_first(*arguments: Any) -> bytes:
                client.execute(_EXCHANGE)
                return composed(*arguments)

            with monkeypatch.context() as patched:
                patched.setattr(raw_names, "composed", exchange_first)
                with pytest.raises(Unavailable, match=r"function pg_catalog\.array_eq"):
                    ground.backend.insight.statements(server, 50)
            assert ground.backend.insight.statements(server, 50)
            assert client.execute("SELECT is_called FROM public.ran").fetchone() == (False,)


def test_statements_are_read_as_on_a_standby_and_only_from_the_view_of_the_extension(instances: Instances) -> None:
    server = new_server(instances)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    ask, view = "SELECT count(*) FROM {counted}", "public.pg_stat_statements"
    with connections.connect(instances.paths(server.service_id), DATABASE) as connection:
        with connection.transaction():
            connection.execute("SET TRANSACTION READ ONLY")
            assert statement_statistics.query(connection, ask)
            assert value(connection, "SELECT pg_current_xact_id_if_assigned() IS NULL")
        definition = value(connection, "SELECT pg_get_viewdef(%s::regclass)", view).rstrip(";")
        replaced = f"CREATE OR REPLACE VIEW {view} AS {definition}"
        for change, undo in (
            (f"ALTER VIEW {view} OWNER TO tsdbadmin", f"ALTER VIEW {view} OWNER TO ramet"),
            (f"ALTER FUNCTION {view} OWNER TO tsdbadmin", f"ALTER FUNCTION {view} OWNER TO ramet"),
            (f"{replaced} WHERE pg_rotate_logfile()", replaced),
        ):
            connection.execute(change.encode())
            assert statement_statistics.query(connection, ask) is None
            connection.execute(undo.encode())
            assert statement_statistics.query(connection, ask)
    instances.remove(server.service_id, 10)


def test_tables_are_measured_without_waiting_for_locks_and_unused_indexes_are_those_that_can_be_dropped() -> None:
    with on_this_host() as ground:
        server = ground.create()
        insight = ground.backend.insight
        with connect(server, ground.passwords[server.service_id]) as client:
            client.autocommit = True
            client.execute("CREATE TABLE wide (id int PRIMARY KEY, code int UNIQUE, at int, text text)")
            client.execute("ALTER TABLE wide ALTER text SET STORAGE EXTERNAL")
            client.execute("INSERT INTO wide SELECT n, n, n, repeat(md5(n::text), 400) FROM generate_series(1, 200) n")
            client.execute("CREATE INDEX wide_at ON wide (at)")
            client.execute("CREATE INDEX wide_text ON wide (md5(text))")
            client.execute("SELECT pg_stat_force_next_flush()")
            client.execute("VACUUM ANALYZE wide")
            client.execute("SET enable_seqscan = off")
            client.execute("SELECT id FROM wide WHERE at = 7")
            client.execute("SELECT pg_stat_force_next_flush()")
            client.execute('CREATE TABLE "; DROP TABLE wide" (id int)')
            client.execute("CREATE DATABASE \"odd = 'name'\"")
            found = insight.tables(server, "tsdb", 50)
            assert [one.name for one in found.tables] == ["wide", "; DROP TABLE wide"]
            wide, empty = found.tables
            assert (wide.rows, wide.dead_rows, wide.vacuumed_at is None, wide.analyzed_at is None) == (
                200,
                0,
                False,
                False,
            )
            assert wide.total_bytes == value(client, "SELECT pg_total_relation_size('wide')")
            assert wide.indexes_bytes == value(client, "SELECT pg_indexes_size('wide')")
            assert (wide.toast_bytes or 0) > 200 * 100
            assert (empty.rows, empty.analyzed_at) == (None, None)
            eventually(lambda: [one.name for one in insight.tables(server, "tsdb", 50).unused_indexes] == ["wide_text"])
            assert found.counted_since is not None
            assert found.is_complete
            assert insight.tables(server, "odd = 'name'", 50).tables == []
            with client.transaction():
                client.execute("LOCK TABLE wide")
                locked = insight.tables(server, "tsdb", 50).tables
                assert [(one.name, one.total_bytes) for one in locked] == [("wide", None), ("; DROP TABLE wide", 0)]
