"""Connection strings: one place makes them, for every kind of endpoint."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from ramet import endpoints
from ramet.endpoints import ConnectionFormat, address, connection_in, connection_uri, connection_variables, is_loopback

SOURCES = Path(endpoints.__file__).parent


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (connection_uri("db.example", 5432), "postgresql://tsdbadmin@db.example:5432/tsdb?sslmode=require"),
        (connection_uri("::1", 5432), "postgresql://tsdbadmin@[::1]:5432/tsdb?sslmode=require"),
        (connection_uri("localhost", 1, tls=False), "postgresql://tsdbadmin@localhost:1/tsdb?sslmode=disable"),
        (connection_uri("h", 1, role="a b", password="p/@:"), "postgresql://a%20b:p%2F%40%3A@h:1/tsdb?sslmode=require"),
    ],
)
def test_a_uri_has_role_password_address_and_sslmode(uri: str, expected: str) -> None:
    assert uri == expected


@given(role=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1), password=st.text(min_size=1))
@pytest.mark.parametrize("host", ["localhost", "db.example", "127.0.0.1", "::1", "2001:db8::7"])
def test_libpq_parses_the_uri(host: str, role: str, password: str) -> None:
    secret = password.replace("\0", "0").encode(errors="replace").decode()
    read = conninfo_to_dict(connection_uri(host, 5432, role=role, password=secret))
    found = {key: read[key] for key in ("host", "port", "user", "password", "dbname", "sslmode")}
    expected = {"host": host, "port": "5432", "user": role, "password": secret, "dbname": "tsdb", "sslmode": "require"}
    assert found == expected


def test_variables_match_the_uri() -> None:
    names = ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGSSLMODE")
    expected = dict(zip(names, ("::1", "15432", "app", "tsdb", "disable"), strict=True))
    assert connection_variables("::1", 15432, role="app", tls=False) == expected


def test_addresses_have_brackets_where_they_need_them() -> None:
    assert [address(host, 80) for host in ("::1", "a.b", "10.0.0.1")] == ["[::1]:80", "a.b:80", "10.0.0.1:80"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("0.0.0.0", False), ("db.example", False)],  # noqa: S104
)
def test_only_loopback_addresses_and_localhost_are_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_only_endpoints_makes_connection_strings() -> None:
    texts = {path.relative_to(SOURCES).as_posix(): path.read_text() for path in SOURCES.rglob("*.py")}
    assert [name for name, text in texts.items() if 'f"postgresql://' in text or "PGHOST=" in text] == ["endpoints.py"]


_SHOWN = {
    ConnectionFormat.URI: "postgresql://tsdbadmin:s@db.example:5432/tsdb?sslmode=require",
    ConnectionFormat.PSQL: "psql 'postgresql://tsdbadmin:s@db.example:5432/tsdb?sslmode=require'",
    ConnectionFormat.LIBPQ: "host=db.example port=5432 dbname=tsdb user=tsdbadmin password=s sslmode=require",
    ConnectionFormat.JDBC: "jdbc:postgresql://db.example:5432/tsdb?user=tsdbadmin&password=s&sslmode=require",
    ConnectionFormat.PYTHON: 'psycopg.connect("postgresql://tsdbadmin:s@db.example:5432/tsdb?sslmode=require")',
    ConnectionFormat.NODE: (
        'new pg.Client({"host": "db.example", "port": 5432, "database": "tsdb", "user": "tsdbadmin", "password": "s",'
        ' "ssl": {"rejectUnauthorized": false}})'
    ),
    ConnectionFormat.GO: 'pgx.Connect(ctx, "postgresql://tsdbadmin:s@db.example:5432/tsdb?sslmode=require")',
    ConnectionFormat.DOTNET: ("Host=db.example;Port=5432;Database=tsdb;Username=tsdbadmin;Password=s;SSL Mode=Require"),
}


@pytest.mark.parametrize("wanted", ConnectionFormat)
def test_each_program_has_its_own_form(wanted: ConnectionFormat) -> None:
    assert connection_in(wanted, connection_uri("db.example", 5432, password="s")) == _SHOWN[wanted]


@given(password=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1))
def test_libpq_reads_its_own_form(password: str) -> None:
    uri = connection_uri("::1", 5432, password=password, tls=False)
    found = connection_in(ConnectionFormat.LIBPQ, uri)
    assert conninfo_to_dict(found) == {**conninfo_to_dict(uri)}


def test_a_form_has_a_password_only_if_there_is_one_and_quotes_what_it_must() -> None:
    assert "assword" not in "".join(connection_in(one, connection_uri("h", 1)) for one in ConnectionFormat)
    odd = connection_uri("h", 1, password='a;"b', tls=False)
    assert connection_in(ConnectionFormat.DOTNET, odd).endswith('Password="a;""b";SSL Mode=Disable')
    assert "[::1]:1/tsdb" in connection_in(ConnectionFormat.JDBC, connection_uri("::1", 1))
