"""What a session of an agent takes into memory of what a statement returns."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from ramet.api.schemas.services import Service
from ramet.endpoints import connection_uri
from ramet.errors import Error, TooLarge, Unavailable
from ramet.kits.catalog import describe_tables
from ramet.kits.mcp import sql
from ramet.kits.mcp.callers import Caller
from ramet.kits.mcp.space import MOST_CHARACTERS
from ramet.workbench.relay import Relay
from ramet.workbench.schema import read_schema
from ramet.workbench.statements import StatementRefused
from tests.sources import MAJORS, OWNER, PASSWORD, Source, open_source

_LARGE = "repeat('x', 32 * 1024 * 1024)"


class _Owner:
    """A caller whose login is the superuser of a server."""

    def __init__(self, source: Source, database: str) -> None:
        self._source, self._database = source, database

    def login(self, service: Service, seconds: float, *, read_only: bool) -> str:
        assert seconds > 0
        assert isinstance(read_only, bool)
        tls, endpoint = self._source.installation.has_tls, service.endpoint
        return connection_uri(
            endpoint.host, endpoint.port, role=OWNER, password=PASSWORD.reveal(), tls=tls, database=self._database
        )


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    with open_source(max(MAJORS)) as made:
        hba = made.directory / "data" / "pg_hba.conf"
        hba.write_text("local all all scram-sha-256\nhost all all all scram-sha-256\n")
        made.run("SELECT pg_reload_conf()")
        made.run("CREATE TABLE kept (value text)")
        yield made


def opened(source: Source, *, read_only: bool, database: str = "shop") -> AbstractContextManager[psycopg.Connection]:
    endpoint = SimpleNamespace(host="localhost", port=source.own_port)
    service = cast(Service, SimpleNamespace(name="shop", service_id="abcdefghij", endpoint=endpoint))
    return sql.open_session(cast(Caller, _Owner(source, database)), service, 60, read_only=read_only)


def run(source: Source, statement: str, *, read_only: bool) -> dict[str, Any]:
    with opened(source, read_only=read_only) as session:
        return sql.run_statement(session, statement, 10)


def test_a_row_that_is_too_large_is_refused(source: Source) -> None:
    with pytest.raises(TooLarge, match="larger than 16 MiB") as refused:
        run(source, f"SELECT {_LARGE}", read_only=True)
    assert "look first" not in refused.value.details


def test_what_a_statement_wrote_whose_result_is_too_large_is_to_be_looked_at(source: Source) -> None:
    with pytest.raises(TooLarge, match="larger than 16 MiB") as refused:
        run(source, f"INSERT INTO kept VALUES ({_LARGE}) RETURNING value", read_only=False)
    assert "look first" in refused.value.details


@pytest.mark.parametrize(("read_only", "said"), [(False, "may have been carried out"), (True, "refused the statement")])
def test_what_a_statement_wrote_whose_session_was_lost_is_to_be_looked_at(
    source: Source, read_only: bool, said: str
) -> None:
    with pytest.raises(Error) as refused:
        run(source, "SELECT pg_terminate_backend(pg_backend_pid())", read_only=read_only)
    assert said in str(refused.value)


def test_texts_of_a_database_without_an_encoding_are_texts(source: Source) -> None:
    source.run("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    source.run("CREATE TABLE seen (value text)", "ascii")
    with opened(source, read_only=True, database="ascii") as session:
        assert sql.run_statement(session, "SELECT 'é', 'x'::name", 10)["rows"] == [["é", "x"]]
        assert "public.seen" in str(describe_tables(session, None))
    source.run(r"INSERT INTO seen VALUES (E'J\374rgen'), (E'\303\251')", "ascii")
    with opened(source, read_only=True, database="ascii") as session:
        found = sql.run_statement(
            session, "SELECT value, array_agg(value), 1.5, date '2026-01-02' FROM seen GROUP BY 1 ORDER BY 1", 10
        )
        assert found["rows"] == [
            ["J\\xfcrgen", '["J\\\\xfcrgen"]', "1.5", "2026-01-02"],
            ["é", '["é"]', "1.5", "2026-01-02"],
        ]


def test_json_of_a_database_without_an_encoding_is_text(source: Source) -> None:
    source.run("CREATE DATABASE ascii_json ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    source.run("CREATE TABLE seen (value json, binary_value jsonb)", "ascii_json")
    source.run(r"""INSERT INTO seen VALUES (E'{"a": "J\374rgen"}', E'{"a": "J\374rgen"}')""", "ascii_json")
    with opened(source, read_only=True, database="ascii_json") as session:
        found = sql.run_statement(session, "SELECT value, binary_value, array_agg(value) OVER () FROM seen", 10)
    shown = r'{"a": "J\xfcrgen"}'
    assert found["rows"] == [[shown, shown, json.dumps([shown])]]


def _outlast(relay: Relay, session: psycopg.Connection) -> None:
    relay._end("time")
    session.execute("SELECT 1")


def test_a_session_that_lasts_too_long_is_closed(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Relay] = []

    def relayed(host: str, port: int, most_bytes: int, seconds: float) -> Relay:
        assert seconds == 90
        made.append(Relay(host, port, most_bytes, seconds))
        return made[-1]

    monkeypatch.setattr(sql, "Relay", relayed)
    with pytest.raises(Unavailable, match="did not end within 60 seconds"), opened(source, read_only=True) as session:
        _outlast(made[0], session)


def test_the_first_rows_of_a_large_result_are_returned(source: Source) -> None:
    found = run(source, "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)", read_only=True)
    assert (len(found["rows"]), "truncated" in found) == (10, True)


@pytest.mark.parametrize("value", ["9223372036854775807", "true", "repeat('x', 9000)"])
def test_an_answer_is_not_longer_than_it_may_be(source: Source, value: str) -> None:
    statement = f"SELECT {', '.join([value] * 200)} FROM generate_series(1, 1000)"
    with opened(source, read_only=True) as session:
        found = sql.run_statement(session, statement, 1000)
    assert "truncated" in found
    assert sum(len(str(one)) for row in found["rows"] for one in row) < 1.1 * MOST_CHARACTERS


def test_what_postgresql_says_is_cut(source: Source) -> None:
    with pytest.raises(StatementRefused, match=r'invalid input syntax for type integer: "x+… \(100041 char') as refused:
        run(source, "SELECT repeat('x', 100000)::int", read_only=True)
    assert len(refused.value.message) < 11_000


def test_the_chunks_of_hypertables_are_neither_described_nor_compared(source: Source) -> None:
    source.run("CREATE SCHEMA _timescaledb_internal; CREATE TABLE orders (id int)")
    chunk = "CREATE TABLE _timescaledb_internal._hyper_1_%s_chunk () INHERITS (orders)"
    source.run(f"DO $$BEGIN FOR n IN 1..201 LOOP EXECUTE format('{chunk}', n); END LOOP; END$$")
    with opened(source, read_only=True) as session:
        found, schema = describe_tables(session, None), read_schema(session)
    assert [one["name"] for one in found["tables"]] == ["public.kept", "public.orders"]
    assert "truncated" not in found
    assert {("table", "public.kept"), ("table", "public.orders")} == {one[:2] for one in schema if one[0] == "table"}
