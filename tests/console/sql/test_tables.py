"""The table browser: what it lists, what belongs to a table, and its rows by page, whatever they are called."""

import html
import re
from collections.abc import Iterator

import psycopg
import pytest

from ramet.model.rights import Role
from tests.api.world import JsonObject, World
from tests.console.sql.world import Browser, Server, SqlWorld, prepare
from tests.servers import postgresql

EVIL = """o"'; <b>&%s{}"""
QUOTED = EVIL.replace('"', '""')
SPECIAL = [
    ("shop", "orders", 120),
    ("public", "heap", 60),
    ("covering", "one", 60),
    (EVIL, EVIL, 60),
    ("folded", "one", 120),
    ("folded", "more", 120),
]


@pytest.fixture(scope="module", name="server")
def _server() -> Iterator[Server]:
    with postgresql() as url:
        server = prepare(url)
        server.run(
            "CREATE SCHEMA shop",
            "CREATE TYPE shop.colour AS ENUM ('red', 'green')",
            "CREATE TYPE shop.pair AS (a int, b int)",
            "CREATE TABLE shop.orders (id int GENERATED ALWAYS AS IDENTITY, at date DEFAULT '2026-01-02',"
            " colour shop.colour NOT NULL, total numeric(9,2) CHECK (total > 0), double numeric GENERATED ALWAYS AS"
            " (total * 2) STORED, PRIMARY KEY (colour, id))",
            "COMMENT ON TABLE shop.orders IS 'what <i>people</i> want'",
            "CREATE UNIQUE INDEX orders_at ON shop.orders (at, id)",
            "INSERT INTO shop.orders (colour, total) SELECT (ARRAY['red', 'green'])[n % 2 + 1]::shop.colour, n"
            " FROM generate_series(1, 120) n",
            "ANALYZE shop.orders",
            "CREATE VIEW shop.red AS SELECT id, total FROM shop.orders WHERE colour = 'red'",
            "CREATE TABLE heap AS SELECT n, repeat('x', 5000) AS long, NULL::int[] AS nothing, '\\x00ff'::bytea AS raw,"
            " ROW(NULL, NULL)::shop.pair AS pair FROM generate_series(1, 60) n",
            f'CREATE SCHEMA "{QUOTED}"',
            f'CREATE TABLE "{QUOTED}"."{QUOTED}" ("{QUOTED}" text PRIMARY KEY)',
            f'INSERT INTO "{QUOTED}"."{QUOTED}"' + " SELECT '''' || n || '<u>' FROM generate_series(1, 60) n",
            "CREATE SCHEMA covering",
            "CREATE TABLE covering.one (id int, doc json, PRIMARY KEY (id) INCLUDE (doc))",
            "INSERT INTO covering.one SELECT n, '{}' FROM generate_series(1, 60) n",
            "CREATE TABLE bare ()",
            "CREATE VIEW broken AS SELECT 1 / (n - n) FROM heap",
            role="tsdbadmin",
        )
        server.run(
            "CREATE EXTENSION pg_stat_statements",
            f'CREATE EXTENSION citext SCHEMA "{QUOTED}"',
            "CREATE SCHEMA folded",
            f'SET search_path = public, "{QUOTED}"',
            "CREATE TABLE folded.one (name citext PRIMARY KEY)",
            "INSERT INTO folded.one SELECT (ARRAY['a', 'B'])[n % 2 + 1] || n FROM generate_series(1, 120) n",
            'CREATE TABLE folded.more (id int, name citext, kind text COLLATE "C", PRIMARY KEY (name, kind, id))',
            "INSERT INTO folded.more SELECT n, (ARRAY['a', 'B'])[n % 2 + 1], (ARRAY['a', 'B'])[n % 3 / 2 + 1]"
            " FROM generate_series(1, 120) n",
            "CREATE DATABASE styled",
            "ALTER DATABASE styled SET datestyle = 'SQL'",
            "ALTER DATABASE styled SET timezone = 'Asia/Shanghai'",
            "ALTER DATABASE styled SET extra_float_digits = -3",
        )
        Server(f"{server.url.rpartition('/')[0]}/styled").run(
            "CREATE TABLE times AS SELECT '2026-01-01'::timestamptz + n * interval '1h' AS id"
            " FROM generate_series(1, 120) n",
            "CREATE TABLE floats AS SELECT 1 + n * 1e-14::float8 AS id FROM generate_series(1, 120) n",
            "ALTER TABLE times ADD PRIMARY KEY (id)",
            "ALTER TABLE floats ADD PRIMARY KEY (id)",
        )
        yield server


@pytest.fixture
def viewer(sql: SqlWorld, world: World, shop: JsonObject) -> Iterator[Browser]:
    with sql.signed_in(world.with_key(Role.VIEWER)) as found:
        yield found


def _base(shop: JsonObject) -> str:
    return f"/console/services/{shop['service_id']}/tables"


def _rows(page: str) -> list[list[str]]:
    body = page[page.index('<table class="result">') :]
    body = body[body.index("<tbody>") : body.index("</tbody>")]
    cells = (
        re.findall(r"<td[^>]*>(.*?)</td>", re.sub(r"<summary>.*?</summary>", "", row), re.DOTALL)
        for row in body.split("<tr>")[1:]
    )
    return [[html.unescape(re.sub(r"<[^>]+>", "", one)) for one in row] for row in cells]


def _all_rows(viewer: Browser, path: str, **query: str) -> list[list[str]]:
    """Follow the link to the next rows to the last page."""
    page, found = viewer.see(path, 200, **query), []
    while True:
        found += _rows(page)
        link = re.search(r'href="([^"]+)">Next rows', page)
        if link is None:
            return found
        page = viewer.see(html.unescape(link[1]).partition("#")[0])


def test_tables_and_views_are_listed_with_their_rows_and_sizes(viewer: Browser, shop: JsonObject) -> None:
    page = viewer.see(_base(shop))
    assert re.search(r"shop\.orders</code></a>.*?120<span.*?\d+ KB", page, re.DOTALL)
    assert "<td>view</td>" in page.replace("\n", "")
    assert "pg_stat_statements" not in page
    assert "&lt;i&gt;people" in page
    assert "<i>people" not in page
    assert "<b>&" not in page
    assert "public.heap" not in viewer.see(_base(shop), search="SHOP.O")
    assert "There are none with such a name" in viewer.see(_base(shop), search="_")


def test_a_database_that_is_not_there_is_said_with_those_that_are(viewer: Browser, shop: JsonObject) -> None:
    page = html.unescape(viewer.see(_base(shop), 404, database="nowhere"))
    assert "has no database 'nowhere': Choose one of tsdb, postgres" in page
    assert "<option>tsdb" in page
    assert "has no database" in viewer.see(f"{_base(shop)}/one", 404, database="nowhere", schema="public", name="heap")


def test_a_longer_list_goes_on_where_it_stopped(
    viewer: Browser, shop: JsonObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.workbench.tables.MOST_LISTED", 2)
    page, found = viewer.see(_base(shop)), []
    while (link := re.search(r'href="([^"]+)">More', page)) is not None:
        found += re.findall(r"<code>(\S+?)</code></a>", page)
        page = viewer.see(html.unescape(link[1]))
    found += re.findall(r"<code>(\S+?)</code></a>", page)
    assert [one for one in found if one.startswith(("public", "shop"))] == [
        *("public.bare", "public.broken", "public.heap", "shop.orders", "shop.red")
    ]


def test_a_table_that_somebody_changes_is_not_measured(viewer: Browser, shop: JsonObject, server: Server) -> None:
    with psycopg.connect(server.url) as other:
        other.execute("LOCK TABLE heap IN ACCESS EXCLUSIVE MODE")
        assert re.search(r"public\.heap</code>.*?LOCKED", viewer.see(_base(shop), search="heap"), re.DOTALL)


def test_a_table_has_its_columns_indexes_and_constraints(viewer: Browser, shop: JsonObject) -> None:
    page = html.unescape(viewer.see(f"{_base(shop)}/one", schema="shop", name="orders"))
    for text in (
        "shop.colour",
        "numeric(9,2)",
        "NOT NULL",
        "GENERATED ALWAYS AS IDENTITY",
        "GENERATED ALWAYS AS ((total * (2)::numeric))",
        "CREATE UNIQUE INDEX orders_at ON shop.orders USING btree (at, id)",
        "CHECK (total > 0::numeric)",
        "PRIMARY KEY (colour, id)",
        "about 120 rows",
    ):
        assert text in page, text
    assert "WHERE orders.colour = 'red'" in html.unescape(viewer.see(f"{_base(shop)}/one", schema="shop", name="red"))
    assert "has no table or view" in viewer.see(f"{_base(shop)}/one", 404, schema="shop", name="absent")


@pytest.mark.parametrize(("schema", "name", "count"), SPECIAL)
def test_the_pages_of_a_table_have_every_row_once(
    viewer: Browser, shop: JsonObject, schema: str, name: str, count: int
) -> None:
    rows = _all_rows(viewer, f"{_base(shop)}/one", schema=schema, name=name)
    assert (len(rows), len({tuple(row) for row in rows})) == (count, count)


@pytest.mark.parametrize("name", ["times", "floats"])
def test_the_pages_have_every_row_once_however_a_tenant_has_values_written(
    viewer: Browser, shop: JsonObject, name: str
) -> None:
    rows = _all_rows(viewer, f"{_base(shop)}/one", database="styled", schema="public", name=name)
    assert (len(rows), len({tuple(row) for row in rows})) == (120, 120)


@pytest.mark.parametrize(
    ("schema", "name", "key"),
    [("covering", "one", ["id"]), ("shop", "orders", ["id", "colour"]), ("public", "heap", [])],
)
def test_the_columns_of_the_primary_key_are_marked(
    viewer: Browser, shop: JsonObject, schema: str, name: str, key: list[str]
) -> None:
    page = viewer.see(f"{_base(shop)}/one", schema=schema, name=name)
    assert re.findall(r'<code>(\w+)</code> <span class="tag">key</span>', page) == key


def test_values_are_cut_by_the_server_and_nulls_are_shown(viewer: Browser, shop: JsonObject) -> None:
    page = viewer.see(f"{_base(shop)}/one", schema="public", name="heap")
    assert ("x" * 2000 in page, "x" * 2001 in page) == (True, False)
    assert _rows(page)[0][2:] == ["NULL", "\\x00ff", "(,)"]
    assert "There are no rows" in viewer.see(f"{_base(shop)}/one", schema="public", name="bare")


@pytest.mark.parametrize(
    "after",
    [
        *("x", "[1]", '["red"]', '["red", 1]', '["red", "\\u0000"]', '["red", "\\ud800"]', "[[]]", "{}"),
        pytest.param("[" * 2000, id="deep"),
    ],
)
def test_a_page_that_no_page_led_to_is_refused(viewer: Browser, shop: JsonObject, after: str) -> None:
    assert "no such page" in viewer.see(f"{_base(shop)}/one", 400, schema="shop", name="orders", after=after)


def test_a_key_that_is_no_value_of_its_type_is_refused_by_postgresql(viewer: Browser, shop: JsonObject) -> None:
    page = viewer.see(f"{_base(shop)}/one", schema="shop", name="orders", after='["red", "1); DROP TABLE heap; --"]')
    assert "invalid input syntax for type integer" in page


def test_a_view_that_fails_says_why(viewer: Browser, shop: JsonObject) -> None:
    assert "division by zero" in viewer.see(f"{_base(shop)}/one", schema="public", name="broken")
