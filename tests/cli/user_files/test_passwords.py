"""The file of passwords: PostgreSQL's own format, one line an endpoint."""

from pathlib import Path

import pytest

from ramet.api.schemas.shared import Endpoint
from ramet.cli.connection import connection_string
from ramet.cli.user_files.passwords import (
    find_password,
    forget_password,
    password_variables,
    passwords_path,
    save_password,
)

HERE, THERE = Endpoint("localhost", 15432), Endpoint("localhost", 15433)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_a_new_password_replaces_the_old_one() -> None:
    save_password(HERE, "first")
    save_password(THERE, "other")
    save_password(HERE, "second")
    assert (find_password(HERE), find_password(THERE)) == ("second", "other")
    assert passwords_path().read_text() == "localhost:15433:*:tsdbadmin:other\nlocalhost:15432:*:tsdbadmin:second\n"


def test_lines_of_earlier_releases_are_found_replaced_and_forgotten() -> None:
    save_password(THERE, "other")
    passwords_path().write_text("localhost:15432:tsdb:tsdbadmin:first\nlocalhost:15433:tsdb:tsdbadmin:other\n")
    assert (find_password(HERE), find_password(THERE)) == ("first", "other")
    assert password_variables(HERE) == {"PGPASSFILE": str(passwords_path())}
    assert passwords_path().read_text() == "localhost:15433:*:tsdbadmin:other\nlocalhost:15432:*:tsdbadmin:first\n"
    save_password(HERE, "second")
    assert passwords_path().read_text() == "localhost:15433:*:tsdbadmin:other\nlocalhost:15432:*:tsdbadmin:second\n"
    passwords_path().write_text("localhost:15432:tsdb:tsdbadmin:first\n")
    forget_password(HERE)
    assert passwords_path().read_text() == ""


def test_a_port_is_not_confused_with_a_port_that_begins_with_it() -> None:
    save_password(Endpoint("localhost", 1543), "short")
    assert find_password(HERE) is None


@pytest.mark.parametrize("password", ["a:b", "back\\slash", "\\:", "plain", "ends\\"])
def test_special_characters_in_a_password_are_escaped(password: str) -> None:
    save_password(HERE, password)
    assert find_password(HERE) == password


def test_forgetting_a_password_keeps_the_others() -> None:
    save_password(HERE, "one")
    save_password(THERE, "two")
    forget_password(HERE)
    forget_password(HERE)
    assert (find_password(HERE), find_password(THERE)) == (None, "two")


def test_a_connection_string_requires_tls_and_escapes_the_password() -> None:
    plain = connection_string(Endpoint("db.example", 5432))
    assert plain == "postgresql://tsdbadmin@db.example:5432/tsdb?sslmode=require"
    assert "tsdbadmin:a%2Fb%40c@[::1]:5432" in connection_string(Endpoint("::1", 5432), "a/b@c")
