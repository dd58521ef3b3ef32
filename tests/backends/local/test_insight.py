"""What a real server tells of its clients, and what it does not."""

import threading

from harness.waiting import eventually
from tests.backends.contract.grounds import on_this_host
from tests.backends.local.hosts import connect


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
