"""The platform's sessions are deaf to every setting that a tenant may give a database."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import ramet
from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import closing_settings, connections, logins, session_settings
from ramet.errors import Unavailable
from ramet.model.passwords import new_password, scram_verifier
from tests.backends.local.hosts import boot, new_server
from tests.servers import installations

HARMFUL = (
    "idle_session_timeout = '1ms'",
    "statement_timeout = '1ms'",
    "local_preload_libraries = 'nowhere'",
    "role = 'tsdbadmin'",
    "session_authorization = 'tsdbadmin'",
    "search_path = 'nowhere'",
    "client_encoding = 'SJIS'",
    "default_transaction_read_only = on",
    "work_mem = '64kB'",
    "exit_on_error = on",
)
# How much ANALYZE reads is for the tenant to say.
TENANTS_OWN = {"default_statistics_target"}
ANOTHER_VALUE = """
SELECT name, CASE vartype
    WHEN 'bool' THEN CASE boot_val WHEN 'on' THEN 'off' ELSE 'on' END
    WHEN 'enum' THEN (SELECT v FROM unnest(enumvals) v WHERE v <> boot_val LIMIT 1)
    WHEN 'string' THEN 'nowhere'
    ELSE CASE WHEN boot_val <> min_val THEN min_val ELSE max_val END END
FROM pg_settings WHERE context = 'user' AND NOT 'NO_RESET_ALL' = ANY(pg_settings_get_flags(name))
"""


@pytest.fixture(scope="module", params=sorted(installations().by_major))
def secured(instances: Instances, request: pytest.FixtureRequest) -> Iterator[Server]:
    made = new_server(instances, pg_major=request.param)
    boot(instances, made)
    instances.secure(made, is_new=True, neutralize=False)
    yield made
    instances.remove(made.service_id, 10)


@pytest.fixture
def server(instances: Instances, secured: Server) -> Iterator[Server]:
    """A server whose database has no settings yet."""
    yield secured
    with connections.connect(instances.paths(secured.service_id)) as platform:
        platform.execute("ALTER DATABASE tsdb RESET ALL")
        assert platform.execute("SELECT count(*) FROM pg_db_role_setting").fetchone() == (0,)


def as_owner(instances: Instances, server: Server, *statements: str) -> int:
    """Do as the owner of the database what it may do; return how much that was."""
    done = 0
    with connections.connect(instances.paths(server.service_id)) as platform:
        for statement in statements:
            platform.execute("SET ROLE tsdbadmin")
            try:
                platform.execute(statement.encode())
                done += 1
            except psycopg.Error:
                continue
    return done


def of_tenants(connection: Any) -> dict[str, str]:
    query = "SELECT name, setting FROM pg_settings WHERE source IN ('database', 'user', 'database user', 'global')"
    return dict(connection.execute(query).fetchall())


@pytest.mark.parametrize("harmful", HARMFUL)
def test_forks_are_secured_whatever_was_set_for_the_database(
    instances: Instances, server: Server, harmful: str
) -> None:
    assert as_owner(instances, server, f"ALTER DATABASE tsdb SET {harmful}") == 1
    found = instances.secure(server, is_new=False, neutralize=True)
    assert found["roles_rotated"] == 1
    with connections.connect(instances.paths(server.service_id), "tsdb") as platform:
        assert platform.execute("SELECT session_user, current_user").fetchone() == ("ramet", "ramet")
        assert not of_tenants(platform)


def test_no_setting_of_a_tenant_reaches_the_platform(instances: Instances, server: Server) -> None:
    with connections.connect(instances.paths(server.service_id)) as platform:
        wanted = platform.execute(ANOTHER_VALUE).fetchall()
    done = as_owner(instances, server, *(f"ALTER DATABASE tsdb SET {name} = '{value}'" for name, value in wanted))
    assert done > len(wanted) * 0.8
    with connections.connect(instances.paths(server.service_id), "tsdb") as platform:
        assert set(of_tenants(platform)) == TENANTS_OWN
        assert platform.execute("SELECT count(*) > 0 FROM pg_class").fetchone() == (True,)


def test_a_server_that_does_not_know_the_newest_settings_lets_the_platform_in(
    instances: Instances, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = session_settings.Known()
    monkeypatch.setattr(connections, "_known", known)
    known.remember(server.pg_major, "another", {"added_in_the_last_minor": "on"})
    as_owner(instances, server, "ALTER DATABASE tsdb SET idle_session_timeout = '1ms'")
    with connections.connect(instances.paths(server.service_id), "tsdb") as platform:
        assert not of_tenants(platform)


def test_a_read_only_login_that_locks_the_view_of_all_settings_keeps_nothing_from_the_platform(
    instances: Instances, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, until = instances.paths(server.service_id), datetime.now(UTC) + timedelta(hours=1)
    logins.create(paths, "ramet_login_viewer", scram_verifier(new_password()), until, read_only=True)
    for database in ("postgres", "tsdb"):
        with connections.connect(paths, database) as session:
            session.execute("SET ROLE ramet_login_viewer")
            session.execute("BEGIN READ ONLY")
            session.execute("LOCK TABLE pg_catalog.pg_settings IN ACCESS EXCLUSIVE MODE")
            session.execute(f"PREPARE TRANSACTION 'settings of {database}'".encode())
    monkeypatch.setattr(connections, "_known", session_settings.Known())
    as_owner(instances, server, "ALTER DATABASE tsdb SET idle_session_timeout = '1ms'")
    with connections.connect_inside(paths) as platform:
        assert closing_settings.reset_closing_settings(platform) == ["idle_session_timeout=1ms"]
    logins.drop(paths, ["ramet_login_viewer"])
    with connections.connect(paths) as platform:
        assert platform.execute("SELECT FROM pg_prepared_xacts").fetchall() == []


def test_no_query_reads_settings_from_the_view_that_everybody_may_lock() -> None:
    view, sources = re.compile(r"(FROM|JOIN) (pg_catalog\.)?pg_settings"), Path(ramet.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if view.search(path.read_text())] == []


def test_a_lock_that_hides_the_settings_of_a_server_leaves_it_unavailable(
    instances: Instances, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = instances.paths(server.service_id)
    with connections.connect(paths) as other, other.transaction():
        other.execute("LOCK TABLE pg_catalog.pg_proc IN ACCESS EXCLUSIVE MODE")
        monkeypatch.setattr(connections, "_known", session_settings.Known())
        with pytest.raises(Unavailable, match="locks the database postgres"), connections.connect(paths):
            pass
