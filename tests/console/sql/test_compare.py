"""The schema of a fork beside its parent's: what is added, removed and changed, and what cannot be compared."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from ramet.model.rights import Role
from ramet.store import services
from ramet.workbench.schema import Changed, Schema, compare, lines_of, read_schema
from tests.api.world import JsonObject, World
from tests.console.sql.world import PARENT, Server, SqlWorld, prepare
from tests.servers import postgresql

_MANY_LINES = "\n" * 2500
_EVERYTHING = (
    "CREATE TABLE kept (id int PRIMARY KEY, title text DEFAULT 'x' CHECK (title <> ''), gone int)",
    "CREATE INDEX kept_title ON kept (title)",
    "CREATE TABLE only_before (id bigserial PRIMARY KEY, kept_id int REFERENCES kept)",
    "CREATE VIEW seen AS SELECT id FROM kept",
    "CREATE MATERIALIZED VIEW counted AS SELECT count(*) FROM kept",
    "CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS $$\nSELECT n\n  * 2\n$$",
    f"CREATE FUNCTION long() RETURNS int LANGUAGE sql AS $${_MANY_LINES}SELECT 1$$",
    "CREATE PROCEDURE nothing() LANGUAGE plpgsql AS $$ BEGIN NULL; END $$",
    "CREATE AGGREGATE total(int) (SFUNC = int4pl, STYPE = int, INITCOND = '0')",
    "CREATE FUNCTION touched() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
    "CREATE TRIGGER touch BEFORE UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION touched()",
    "CREATE RULE quiet AS ON DELETE TO only_before DO INSTEAD NOTHING",
    "ALTER TABLE kept ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY mine ON kept USING (id > 0)",
    "CREATE SEQUENCE numbers INCREMENT 5",
    "CREATE TYPE colour AS ENUM ('red', 'green')",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE TYPE span AS RANGE (subtype = int4)",
    "CREATE TABLE parts (id int, at date) PARTITION BY RANGE (at)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')",
    'CREATE TABLE "<b>odd""" ("<i>" text COLLATE "C" GENERATED ALWAYS AS (\'<u>\') STORED)',
)
_CHANGES = (
    "ALTER TABLE kept ALTER title TYPE varchar(20), DROP gone, ADD fresh date NOT NULL",
    "DROP TABLE only_before",
    "DROP INDEX kept_title",
    "CREATE UNIQUE INDEX kept_title ON kept (title)",
    "CREATE OR REPLACE VIEW seen AS SELECT id, fresh FROM kept",
    "CREATE OR REPLACE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS $$\nSELECT n\n  + n\n$$",
    f"CREATE OR REPLACE FUNCTION long() RETURNS int LANGUAGE sql AS $${_MANY_LINES}SELECT 2$$",
    "ALTER TYPE colour ADD VALUE 'blue'",
    "CREATE TYPE empty_enum AS ENUM ()",
    "CREATE TYPE empty_pair AS ()",
    "ALTER SEQUENCE numbers INCREMENT 6",
    "ALTER TABLE kept DISABLE TRIGGER touch",
    'CREATE TABLE "<script>alert(1)</script>" (id int)',
)


@pytest.fixture(scope="module", name="server")
def _server() -> Iterator[Server]:
    with postgresql() as url:
        server = prepare(url)
        server.run("ALTER SCHEMA public OWNER TO tsdbadmin")
        server.run(*_EVERYTHING, role="tsdbadmin")
        server.run(f"CREATE DATABASE {PARENT} TEMPLATE tsdb OWNER tsdbadmin", f"CREATE DATABASE same TEMPLATE {PARENT}")
        server.run(*_CHANGES, role="tsdbadmin")
        yield server


@pytest.fixture(scope="module", name="shop")
def _shop(world: World) -> JsonObject:
    made = world.ready()
    with world.store.write() as tx:
        services.update_service(tx, made["service_id"], host=PARENT)
    return made


@pytest.fixture(scope="module", name="fork")
def _fork(world: World, shop: JsonObject) -> JsonObject:
    made = world.fork(shop, name="preview")
    world.work()
    with world.store.write() as tx:
        services.update_service(tx, made["service_id"], host="localhost")
    return made


def _compared(server: Server, database: str) -> list[Changed]:
    before, after = (_schema(server, name) for name in (PARENT, database))
    return compare(before, after, 500)[0]


def test_what_differs_is_found_and_nothing_else(server: Server) -> None:
    found = {(one.kind, one.name): one for one in _compared(server, "tsdb")}
    assert {name: one.verb for name, one in found.items()} == {
        ("function", "public.long()"): "changed",
        ("function", "public.twice(n integer)"): "changed",
        ("sequence", "public.numbers"): "changed",
        ("sequence", "public.only_before_id_seq"): "removed",
        ("table", 'public."<script>alert(1)</script>"'): "added",
        ("table", "public.kept"): "changed",
        ("table", "public.only_before"): "removed",
        ("type", "public.colour"): "changed",
        ("type", "public.empty_enum"): "added",
        ("type", "public.empty_pair"): "added",
        ("view", "public.seen"): "changed",
    }
    parts = {(one.kind, one.name): one for one in found["table", "public.kept"].parts}
    assert {name: one.verb for name, one in parts.items()} == {
        ("column", "fresh"): "added",
        ("column", "gone"): "removed",
        ("column", "title"): "changed",
        ("constraint", "kept_title_check"): "changed",
        ("index", "public.kept_title"): "changed",
        ("trigger", "touch"): "changed",
    }
    title = parts["column", "title"]
    assert (title.before, title.after) == (
        "text DEFAULT 'x'::text",
        "character varying(20) DEFAULT 'x'::text",
    )
    (body,) = found["function", "public.twice(n integer)"].parts
    assert [line for line in body.lines if line[0] in "+-"] == ["-  * 2", "+  + n"]


def test_every_kind_of_definition_is_read_and_equal_ones_do_not_differ(server: Server) -> None:
    assert _compared(server, "same") == []
    empty = [replace(one, parts=()) for one in _added(server)]
    assert {one.verb for one in empty} == {"added"}
    assert {one.kind for one in empty} == {
        *("aggregate", "domain", "extension", "function", "materialized view", "procedure", "schema", "sequence"),
        *("table", "type", "view"),
    }
    parts = {part.kind for one in _added(server) for part in one.parts}
    assert parts == {"", "column", "constraint", "index", "policy", "rule", "trigger"}
    (view,) = (one for one in _added(server) if one.kind == "view")
    assert [part.kind for part in view.parts] == [""]


def test_the_lines_of_a_schema_name_each_object_and_its_parts(server: Server) -> None:
    lines = list(lines_of(_schema(server)))
    kept = lines[lines.index("table public.kept") + 1 :]
    kept = kept[: next(n for n, line in enumerate(kept) if not line.startswith(" "))]
    assert kept == [
        "    ROW LEVEL SECURITY",
        "    gone integer",
        "    id integer NOT NULL",
        "    title text DEFAULT 'x'::text",
        "    CONSTRAINT kept_pkey PRIMARY KEY (id)",
        "    CONSTRAINT kept_title_check CHECK (title <> ''::text)",
        "    CREATE INDEX kept_title ON public.kept USING btree (title)",
        "    POLICY mine PERMISSIVE FOR ALL TO PUBLIC USING ((id > 0))",
        "    CREATE TRIGGER touch BEFORE UPDATE ON public.kept FOR EACH ROW EXECUTE FUNCTION public.touched()",
    ]


def _added(server: Server) -> list[Changed]:
    return compare({}, _schema(server), 500)[0]


def _schema(server: Server, database: str = "same") -> Schema:
    url = f"{server.url.rsplit('/', 1)[0]}/{database}"
    with psycopg.connect(url, user="reader", options="-c search_path=pg_catalog") as session:
        return read_schema(session)


def test_the_page_shows_both_sides_as_text(sql: SqlWorld, world: World, fork: JsonObject) -> None:
    with sql.signed_in(world.with_key(Role.VIEWER)) as viewer:
        page = viewer.see(f"/console/services/{fork['service_id']}/compare")
    assert '<span class="minus">-text DEFAULT &#39;x&#39;::text</span>' in page
    assert '<span class="plus">+  + n</span>' in page
    assert "<script>alert" not in page
    assert re.search(r"this page would be too long: 250\d lines", page)
    shown = html.unescape(re.sub(r"<[^>]+>", " ", page))
    assert re.search(r"Table\s+public\.only_before\s+REMOVED", shown)
    assert "database" in page


def test_what_cannot_be_compared_is_said(sql: SqlWorld, world: World, shop: JsonObject, fork: JsonObject) -> None:
    with sql.signed_in() as admin:
        assert "is not a fork" in admin.see(f"/console/services/{shop['service_id']}/compare")
        path = f"/console/services/{fork['service_id']}/compare"
        page = html.unescape(admin.see(path, 404, database="absent"))
        assert re.search(r"has no database 'absent': Choose one of tsdb, .*postgres", page)
        assert "<option>postgres" in page
        page = admin.see(path, database="dropped")
        assert re.search(r"Database\s+dropped\s+REMOVED", re.sub(r"<[^>]+>", " ", page))
    holder = world.forker(shop)
    own = holder.fork(shop, name="own")
    world.work()
    with sql.signed_in(holder) as forker:
        assert "your key does not see it" in html.unescape(forker.see(f"/console/services/{own['service_id']}/compare"))
