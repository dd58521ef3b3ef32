"""The SQL editor: what it shows, what it refuses, and what the audit says of it."""

import html
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any, cast

import pytest
import sqlalchemy as sa

from harness.waiting import eventually
from ramet.errors import Unavailable
from ramet.model.rights import Role
from ramet.store.database import Store
from ramet.store.tables import spent_form
from ramet.workbench.statements import Amount
from tests.api.world import JsonObject, World
from tests.audited import entries_of
from tests.console.sql.world import KEY, Browser, Server, SqlWorld, prepare
from tests.disconnecting import status_of_disconnected
from tests.servers import postgresql


@pytest.fixture(scope="module", name="server")
def _server() -> Iterator[Server]:
    with postgresql() as url:
        server = prepare(url)
        server.run("CREATE TABLE orders (id int PRIMARY KEY, title text)", role="tsdbadmin")
        yield server


@pytest.fixture
def admin(sql: SqlWorld, shop: JsonObject) -> Iterator[Browser]:
    with sql.signed_in() as found:
        yield found


def _spent(world: World) -> int:
    with world.store.read() as tx:
        return len(tx.execute(sa.select(spent_form)).all())


def _text(page: str) -> str:
    """Return what a page shows, without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_a_result_has_the_types_of_its_columns_and_shows_nulls(admin: Browser, shop: JsonObject) -> None:
    answer = admin.sql(
        shop,
        "SELECT 1.50::numeric(6,2) AS price, NULL::text AS nothing, '' AS empty, 'NULL' AS word,"
        " '\\x00ff'::bytea AS raw, '{\"a\": 1}'::json AS doc, ARRAY[1, NULL] AS list,"
        " 'infinity'::timestamptz AS ever, true AS price",
    )
    assert answer.status_code == 200
    for column, kind in (("price", "numeric(6,2)"), ("raw", "bytea"), ("list", "integer[]"), ("price", "boolean")):
        assert f'{column}<br><span class="type">{kind}</span>' in answer.text
    values = re.findall(r"<td[^>]*>(.*?)</td>", answer.text)
    span = '<span class="value">{}</span>'
    shown = ("1.50", "", "NULL", "\\x00ff", "{&#34;a&#34;: 1}", "{1,NULL}", "infinity", "t")
    assert values == [span.format("1.50"), '<i class="null">NULL</i>', *(span.format(one) for one in shown[1:])]
    assert "1 row" in answer.text
    assert answer.text.count('<td class="number">') == 1


def test_a_long_value_is_folded(admin: Browser, shop: JsonObject) -> None:
    page = admin.sql(shop, "SELECT repeat('lorem ipsum ', 50), repeat(E'x\\n', 9), 'short'").text
    assert page.count('<details class="long">') == 2
    assert "lorem ipsum " * 50 in page
    assert '<span class="value">short</span>' in page


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT 1; SELECT 2", "Send one statement at a time"),
        ("VACUUM orders", "To write, tick the box above"),
        ("SELECT pg_read_file('/etc/passwd')", "The role of this login may not do that"),
        ("BEGIN", "each statement has a session of its own, which has ended"),
    ],
)
def test_what_helps_is_said(admin: Browser, shop: JsonObject, statement: str, said: str) -> None:
    page = admin.sql(shop, statement).text
    assert said in page
    assert ("tick the box above" in page) is (statement == "VACUUM orders")


def test_a_statement_that_takes_too_long_is_told_how_to_take_longer(
    admin: Browser, shop: JsonObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.console.pages.sql.SECONDS", (1,))
    page = admin.sql(shop, "SELECT pg_sleep(600)", seconds="1").text
    assert "Choose more seconds, or ask for less" in page


def test_values_and_names_are_text_and_no_markup(admin: Browser, shop: JsonObject) -> None:
    evil = "<script>alert(1)</script>"
    answer = admin.sql(shop, f"SELECT '{evil}' AS \"{evil}\"; -- </textarea>{evil}")
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text
    assert answer.text.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 5
    refused = admin.sql(shop, f'SELECT "{evil}"', database="tsdb")
    assert refused.status_code == 422
    assert "<script>alert" not in refused.text
    assert "<script>" not in admin.sql(shop, "SELECT 1", database=evil).text.replace("<script src", "")


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("SELECT nothing\nFROM\n  ordres", "42P01", "Line 3, column 3"),
        ("SELECT titel FROM orders", "42703", 'Perhaps you meant to reference the column "orders.title"'),
        ("SELECT 1; DROP TABLE orders", "42601", "cannot insert multiple commands"),
        ("COMMIT; DROP TABLE orders", "42601", "cannot insert multiple commands"),
        ("INSERT INTO orders VALUES (1)", "25006", "read-only transaction"),
        ("SELECT nextval('s')", "42P01", ""),
        ("CREATE TEMP TABLE t ()", "25006", "read-only transaction"),
        ("DO $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; END $$", "2D000", ""),
        ("DO $$ BEGIN SET TRANSACTION READ WRITE; END $$", "25001", ""),
        ("SELECT lo_unlink(1)", "", ""),
        ("COPY (SELECT 1) TO PROGRAM 'id'", "42501", "external program"),
        ("COPY orders FROM '/etc/passwd'", "", ""),
        ("SELECT pg_read_file('/etc/passwd')", "42501", "permission denied"),
        ("SELECT lo_import('/etc/passwd')", "42501", ""),
        ("SET SESSION AUTHORIZATION ramet", "42501", ""),
        ("SET ROLE tsdbadmin", "42501", ""),
        ("ALTER ROLE reader SUPERUSER", "", ""),
        ("COPY orders TO STDOUT", "", "download them as CSV"),
        ("COPY orders FROM STDIN", "", ""),
        ("SELECT 1/0", "22012", "division by zero"),
        ("SELECT '\x00'", "", "code zero"),
        ("", "", "Enter a statement"),
    ],
)
def test_what_is_refused_is_said_as_postgresql_says_it(
    admin: Browser, shop: JsonObject, server: Server, statement: str, code: str, said: str
) -> None:
    answer = admin.sql(shop, statement)
    assert answer.status_code == 422, answer.text
    assert said in _text(answer.text)
    assert code in answer.text
    assert server.run("SELECT count(*) FROM orders") == [(0,)]


def test_a_statement_writes_when_the_box_is_ticked_and_the_audit_says_so_without_its_constants(
    admin: Browser, shop: JsonObject, server: Server, world: World
) -> None:
    before = len(entries_of(world.store, verb="runStatement"))
    assert admin.sql(shop, "SELECT 'a reader''s secret'").status_code == 200
    assert len(entries_of(world.store, verb="runStatement")) == before
    answer = admin.sql(shop, "INSERT INTO orders VALUES (7, 'hidden') RETURNING id", write="yes", key="once")
    assert answer.status_code == 200
    assert '<span class="value">7</span>' in answer.text
    assert server.run("SELECT * FROM orders") == [(7, "hidden")]
    again = admin.sql(shop, "INSERT INTO orders VALUES (8, 'hidden')", write="yes", key="once")
    assert again.status_code == 409
    assert "sent before" in again.text
    found = KEY.search(again.text)
    assert found is not None
    assert admin.sql(shop, "DELETE FROM orders", write="yes", key=found[1]).text.count("DELETE 1") == 1
    noted = entries_of(world.store, verb="runStatement")[before:]
    assert [(one.outcome, one.code) for one in noted] == [
        *[("started", None), ("accepted", None), ("refused", "SENT_TWICE"), ("started", None), ("accepted", None)]
    ]
    assert noted[0].fields["sql"] == "INSERT INTO orders VALUES (7, '…') RETURNING id"
    assert {one.subject for one in noted} == {shop["service_id"]}
    assert "hidden" not in str(entries_of(world.store))
    assert "reader's secret" not in str(entries_of(world.store)).replace("''", "'")
    logins = [one.fields["read_only"] for one in entries_of(world.store, verb="createLogin")]
    assert set(logins) == {True, False}


def test_what_a_writing_statement_failed_at_is_in_the_audit(admin: Browser, shop: JsonObject, world: World) -> None:
    assert admin.sql(shop, "DROP TABLE absent", write="yes", key="fails").status_code == 422
    assert [one.code for one in entries_of(world.store, verb="runStatement")][-2:] == [None, "STATEMENT_REFUSED"]


def test_the_name_of_a_prod_service_is_typed_before_a_statement_writes(admin: Browser, sql: SqlWorld) -> None:
    prod = sql.world.ready(name="prod", environment_tag="PROD")
    assert "type <b" in admin.see(f"/console/services/{prod['service_id']}/sql")
    refused = admin.sql(prod, "CREATE TABLE made ()", write="yes")
    assert refused.status_code == 422
    assert "to confirm" in refused.text
    assert admin.sql(prod, "CREATE TABLE made ()", write="yes", confirmation="prod").status_code == 200
    assert sql.server.run("DROP TABLE made") == []


def test_a_viewer_reads_and_is_refused_whatever_the_form_says(sql: SqlWorld, shop: JsonObject, world: World) -> None:
    with sql.signed_in(world.with_key(Role.VIEWER)) as viewer:
        path = f"/console/services/{shop['service_id']}/sql"
        assert 'name="write"' not in viewer.see(path)
        assert viewer.sql(shop, "SELECT 1").status_code == 200
        for action, status in (("run", 403), ("explain", 403), ("csv", 422), ("other", 422)):
            assert viewer.sql(shop, "DROP TABLE orders", write="yes", action=action).status_code == status, action
        assert "tsdbadmin" not in str(sql.server.run("SELECT usename FROM pg_stat_activity"))
    assert entries_of(world.store, verb="runStatement")[-1].outcome == "refused"


def test_a_forker_reaches_its_own_forks_alone(sql: SqlWorld, shop: JsonObject, world: World) -> None:
    holder = world.forker(shop)
    fork = holder.fork(shop)
    world.work()
    with sql.signed_in(holder) as forker:
        assert forker.sql(shop, "SELECT 1").status_code == 404
        assert forker.sql(fork, "CREATE TABLE mine ()", write="yes").status_code == 200
    assert sql.server.run("DROP TABLE mine") == []


def test_a_form_of_another_session_is_refused(admin: Browser, shop: JsonObject) -> None:
    refused = admin.sql(shop, "CREATE TABLE forged ()", write="yes", _token="0" * 64)
    assert refused.status_code == 403
    assert "another session" in refused.text


@pytest.mark.parametrize("name", ["key", "cancels"])
def test_a_form_with_a_longer_key_than_it_is_given_is_refused(
    admin: Browser, sql: SqlWorld, shop: JsonObject, name: str
) -> None:
    before = _spent(sql.world)
    refused = admin.sql(shop, "SELECT 1", write="yes", **{"database": "nowhere", name: "k" * 65})
    assert refused.status_code == 422
    assert f"{name} has more than 64 characters" in refused.text
    assert _spent(sql.world) == before
    assert admin.sql(shop, "SELECT 1", **{name: "k" * 64}).status_code == 200


def test_a_plan_is_shown_and_nothing_is_run(admin: Browser, shop: JsonObject, server: Server) -> None:
    assert "Seq Scan on orders" in admin.sql(shop, "SELECT * FROM orders", action="explain").text
    assert "Insert on orders" in admin.sql(shop, "INSERT INTO orders VALUES (1)", action="explain", write="yes").text
    refused = admin.sql(shop, "ANALYZE INSERT INTO orders VALUES (1)", action="explain", write="yes")
    assert "25006" in refused.text
    assert "Line 1, column 8" in admin.sql(shop, "SELECT absent", action="explain").text
    assert server.run("SELECT count(*) FROM orders") == [(0,)]


def test_a_result_is_a_file_in_which_null_and_the_empty_text_differ(
    admin: Browser, shop: JsonObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = admin.sql(shop, "SELECT 'a \"b\",c' AS \"x,y\", NULL AS n, '' AS e", action="csv")
    assert answer.text == '"x,y",n,e\r\n"a ""b"",c",,""\r\n'
    assert answer.headers["content-disposition"] == 'attachment; filename="shop.csv"'
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    monkeypatch.setattr("ramet.console.pages.sql._CSV", Amount(3, cells=None, value_bytes=None, all_bytes=None))
    assert admin.sql(shop, "SELECT generate_series(1, 3)", action="csv").text.count("\n") == 4
    many = admin.sql(shop, "SELECT generate_series(1, 4)", action="csv")
    assert (many.status_code, "more than 3 rows" in many.text) == (413, True)
    assert "SELECT generate_series(1, 4)</textarea>" in many.text


def test_what_is_larger_than_the_limits_is_cut_or_refused(admin: Browser, shop: JsonObject) -> None:
    rows = admin.sql(shop, "SELECT generate_series(1, 1000000)")
    assert rows.text.count("<tr>") == 101
    assert "100 rows, and there are more" in rows.text
    long = admin.sql(shop, "SELECT repeat('x', 10000)").text
    assert ("x" * 2000 in long, "x" * 2001 in long, "… 10 KB in all" in long) == (True, False, True)
    large = admin.sql(shop, "SELECT repeat('x', 100000000)")
    assert (large.status_code, "larger than 16 MiB" in large.text) == (413, True)
    assert "may have been carried out" not in large.text
    large = admin.sql(shop, "SELECT repeat('x', 100000000)", write="yes", key="large")
    assert "may have been carried out" in large.text
    wide = ", ".join(["generate_series(1, 100000)"] * 400)
    assert admin.sql(shop, f"SELECT {wide}", rows="1000").text.count("<tr>") == 51


def test_what_a_statement_says_of_another_server_leaves_nothing_open(admin: Browser, shop: JsonObject) -> None:
    raised = "RAISE EXCEPTION 'could not establish connection' USING ERRCODE = '08001'"  # as dblink does
    refused = admin.sql(shop, f"DO $$ BEGIN {raised}; END $$", write="yes", key="dblink")
    assert refused.status_code == 422
    assert "could not establish connection" in refused.text
    assert "The session ended" not in refused.text


def test_a_statement_that_writes_and_whose_session_was_lost_is_not_called_refused(
    admin: Browser, shop: JsonObject
) -> None:
    lost = admin.sql(shop, "SELECT pg_terminate_backend(pg_backend_pid())", write="yes", key="unknown")
    assert (lost.status_code, "may have been carried out: look first" in lost.text) == (503, True)
    assert "refused the statement" not in lost.text
    assert "57P01" in admin.sql(shop, "SELECT pg_terminate_backend(pg_backend_pid())").text


def test_a_statement_is_cancelled_by_its_form_and_by_nobody_else(
    sql: SqlWorld, admin: Browser, shop: JsonObject
) -> None:
    answers: list[str] = []
    waiting = threading.Thread(
        target=lambda: answers.append(admin.sql(shop, "SELECT pg_sleep(600)", key="long", seconds="300").text)
    )
    waiting.start()
    try:
        is_asleep = "SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep' AND state = 'active'"
        eventually(lambda: sql.server.run(is_asleep) == [(1,)])
        assert sql.console.context.desk.cancel("another key", "long") is None
        assert "No statement of this form" in admin.sql(shop, "", key="other", action="cancel").text
        assert "was cancelled" in admin.sql(shop, "SELECT 2", key="long", action="cancel").text
    finally:
        waiting.join()
    assert "57014" in answers[0]


@pytest.mark.parametrize(("commits", "said"), [(True, "its changes are committed"), (False, "Run it again")])
def test_a_statement_that_ends_before_it_is_cancelled_is_run_again_only_if_it_did_not_commit(
    sql: SqlWorld, admin: Browser, shop: JsonObject, *, commits: bool, said: str
) -> None:
    with ExitStack() as ending:

        class Session:
            def cancel_safe(self, **_: object) -> None:
                ending.close()

        owner, desk = sql.world.tenant, sql.console.context.desk
        running = desk.running(owner.project.id, owner.key.public_key, f"late {commits}", commits=commits)
        ending.enter_context(running).begin_in(cast("Any", Session()))
        page = admin.sql(shop, "SELECT 1", key=f"late {commits}", action="cancel").text
    assert said in page
    assert ("Run it again" in page) is not commits


def test_a_cancelled_statement_whose_session_has_ended_may_have_committed(
    sql: SqlWorld, admin: Browser, shop: JsonObject
) -> None:
    lost = Unavailable("STATEMENT_ABANDONED", "The statement did not end within 1 seconds")
    with ExitStack() as ending:

        class Session:
            def cancel_safe(self, **_: object) -> None:
                with suppress(Unavailable):
                    ending.pop_all().__exit__(type(lost), lost, None)

        owner, desk = sql.world.tenant, sql.console.context.desk
        running = desk.running(owner.project.id, owner.key.public_key, "lost", commits=True)
        ending.enter_context(running).begin_in(cast("Any", Session()))
        page = admin.sql(shop, "SELECT 1", key="lost", action="cancel").text
    assert "It may have been committed" in page


def test_a_statement_that_has_not_ended_yet_can_be_cancelled_again(
    sql: SqlWorld, admin: Browser, shop: JsonObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.console.pages.sql._END_SECONDS", 0)
    owner = sql.world.tenant
    with sql.console.context.desk.running(owner.project.id, owner.key.public_key, "stubborn", commits=True):
        page = admin.sql(shop, "SELECT 1", key="stubborn", action="cancel").text
        assert "has not ended yet" in page
        assert 'name="cancels" value="stubborn"' in page
        assert 'name="key" value="stubborn"' not in page
    page = admin.sql(shop, "SELECT 1", cancels="stubborn", action="cancel").text
    assert "No statement of this form" in page
    assert "stubborn" not in page


def test_where_several_processes_may_run_statements_one_that_runs_none_says_that_another_one_may(
    sql: SqlWorld, admin: Browser, shop: JsonObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "is_postgresql", True)
    assert admin.sql(shop, "DELETE FROM orders", write="yes", key="elsewhere").status_code == 200
    page = admin.sql(shop, "SELECT 1", key="elsewhere", action="cancel").text
    assert "No statement of this form is running in this process of Ramet" in page
    assert 'name="cancels" value="elsewhere"' in page
    found = KEY.search(page)
    assert found is not None
    new = {"key": found[1], "cancels": "elsewhere"}
    assert admin.sql(shop, "UPDATE orders SET id = 2", write="yes", **new).status_code == 200
    assert admin.sql(shop, "UPDATE orders SET id = 2", write="yes", **new).status_code == 409
    owner = sql.world.tenant
    with sql.console.context.desk.running(owner.project.id, owner.key.public_key, "elsewhere", commits=True) as run:
        monkeypatch.setattr("ramet.console.pages.sql._END_SECONDS", 0)
        admin.sql(shop, "SELECT 1", action="cancel", **new)
        assert run.is_cancelled


def test_a_statement_that_catches_its_cancellation_loses_its_session(
    admin: Browser, shop: JsonObject, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.console.pages.sql.SECONDS", (1,))
    monkeypatch.setattr("ramet.workbench.sessions._GRACE_SECONDS", 0)
    stubborn = "LOOP BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN END; END LOOP"
    answer = admin.sql(shop, f"DO $$ BEGIN {stubborn}; END $$", seconds="1")
    assert answer.status_code == 503
    assert "did not end within 1 seconds, nor when it was cancelled" in answer.text
    eventually(lambda: server.run("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^DO'") == [(0,)])


def test_a_browser_that_disconnects_while_it_sends_a_form_is_no_fault(
    admin: Browser, shop: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"/console/services/{shop['service_id']}/sql"
    assert status_of_disconnected(admin.client.app, path, admin.client.cookies) == 400
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


def test_a_service_that_is_not_ready_is_refused_by_a_sentence(sql: SqlWorld, admin: Browser) -> None:
    made = sql.world.ready(name="paused")
    sql.world.post(sql.world.path(made["service_id"], "stop"))
    sql.world.work()
    assert "needs it to be READY" in admin.see(f"/console/services/{made['service_id']}/sql")
    assert "needs it to be READY" in admin.sql(made, "SELECT 1").text
    assert 'href="/console/services/' + made["service_id"] + '/sql"' not in admin.see(
        f"/console/services/{made['service_id']}"
    )
