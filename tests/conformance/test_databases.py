"""Rules 21 to 23 of docs/compatibility.md: the database side, over TLS, with psycopg and psql."""

import subprocess
from contextlib import suppress
from urllib.parse import quote

import psycopg
import pytest

from harness.waiting import BOUND_SECONDS, eventually
from ramet.backends.local.server import read_only_module
from tests.conformance.server import Ramet
from tests.conformance.shapes import Service
from tests.servers import installations

COME_BACK = ("refused", "starting up", "not yet accepting", "server does not support SSL", "shutting down")


def test_rule_21_database_and_admin_have_the_known_names_and_no_superuser(ramet: Ramet, shop: Service) -> None:
    query = "SELECT current_database(), current_user, rolsuper FROM pg_roles WHERE rolname = current_user"
    assert ramet.rows(shop, query) == [("tsdb", "tsdbadmin", False)]


def test_rule_21_psql_connects_with_the_uri_that_clients_make(ramet: Ramet, shop: Service) -> None:
    endpoint, password = shop.endpoint, ramet.passwords[f"{shop.endpoint.host}:{shop.endpoint.port}"]
    uri = f"postgresql://tsdbadmin:{quote(password, safe='')}@{endpoint.host}:{endpoint.port}/tsdb?sslmode=require"
    done = subprocess.run(
        ["psql", uri, "-X", "-At", "-c", "SELECT count(*) FROM orders"],
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=True,
    )
    assert done.stdout.strip() == "1000"


def test_rule_21_there_is_no_way_in_without_tls(ramet: Ramet, shop: Service) -> None:
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        ramet.connect(shop, sslmode="disable")


def test_rule_21_a_fork_has_another_password(ramet: Ramet, shop: Service) -> None:
    fork = ramet.wait(ramet.fork(shop, name="own password"), "READY")
    parents = ramet.passwords[f"{shop.endpoint.host}:{shop.endpoint.port}"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        ramet.connect(fork, password=parents)
    ramet.delete(fork)


@pytest.mark.parametrize("password", ["".join(map(chr, range(0x20, 0x7F))), "pässwörd ⚘", "' OR 1=1; --"])
def test_rule_21_an_updated_password_holds_at_once(ramet: Ramet, shop: Service, password: str) -> None:
    key = f"{shop.endpoint.host}:{shop.endpoint.port}"
    old = ramet.passwords[key]
    ramet.post(shop, "updatePassword", {"password": password}, 204, None)
    ramet.passwords[key] = password
    assert ramet.rows(shop, "SELECT 1") == [(1,)]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        ramet.connect(shop, password=old)


def test_rule_27_the_last_snapshot_holds_what_a_fork_of_now_holds(ramet: Ramet, shop: Service) -> None:
    with ramet.connect(shop) as connection:
        connection.execute("CREATE TABLE noted AS SELECT 1 AS n")
    for strategy in ("NOW", "LAST_SNAPSHOT"):
        fork = ramet.wait(ramet.fork(shop, fork_strategy=strategy), "READY")
        assert ramet.rows(fork, "SELECT n FROM noted") == [(1,)]
        ramet.delete(fork)
    with ramet.connect(shop) as connection:
        connection.execute("DROP TABLE noted")


def test_a_resize_up_or_down_is_in_force_when_the_service_is_ready_again(ramet: Ramet, shop: Service) -> None:
    for cpu, memory, connections in (("2000", "8", "200"), ("shared", "shared", "100"), ("500", "2", "100")):
        ramet.post(shop, "resize", {"cpu_millis": cpu, "memory_gbs": memory})
        ready = ramet.wait(shop, "READY")
        spec = ready.resources[0].spec
        assert spec.memory_gbs == (None if memory == "shared" else int(memory))
        assert ramet.rows(ready, "SHOW max_connections") == [(connections,)]
        assert ramet.rows(ready, "SELECT count(*) FROM orders") == [(1000,)]


def test_rule_22_read_only_sessions_and_roles_really_cannot_write(ramet: Ramet, shop: Service) -> None:
    options = "-c tsdb_admin.read_only_connection=true"
    installation = installations().default
    if not read_only_module.library_of(installation.major).exists() and installation.major < 17:
        options += " -c default_transaction_read_only=on"
    assert ramet.rows(shop, "SELECT count(*) FROM orders", options=options) == [(1000,)]
    for write in ("DELETE FROM orders", "CREATE TABLE mine (id int)"):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), ramet.connect(shop, options=options) as connection:
            connection.execute(write)
    with ramet.connect(shop) as connection:
        connection.execute("CREATE ROLE reader_22 LOGIN PASSWORD 'reader_22'")
        connection.execute("GRANT ALL ON orders TO reader_22")
        connection.execute("ALTER ROLE reader_22 SET tsdb_admin.read_only_role = true")
    reader = {"user": "reader_22", "password": "reader_22"}
    assert ramet.rows(shop, "SELECT count(*) FROM orders", **reader) == [(1000,)]
    eventually(lambda: ramet.rows(shop, "SELECT has_table_privilege('reader_22', 'orders', 'DELETE')") == [(False,)])
    refusals = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege)
    with pytest.raises(refusals), ramet.connect(shop, **reader) as connection:
        connection.execute("DELETE FROM orders")


def test_rule_22_a_role_of_the_platforms_functions_reads_all_and_no_setting_lets_it_write(
    ramet: Ramet, shop: Service
) -> None:
    with ramet.connect(shop) as connection, connection.transaction():
        connection.execute("SELECT timescale_functions.create_bare_readonly_role('bare_22', 'bare_22')")
        connection.execute("SELECT timescale_functions.grant_tsdbadmin_to_role('bare_22')")
    bare = {"user": "bare_22", "password": "bare_22"}
    assert ramet.rows(shop, "SELECT count(*) FROM orders", **bare) == [(1000,)]
    for escape in ("SET default_transaction_read_only = off", "RESET ALL", "SET ROLE tsdbadmin"):
        refusals = (psycopg.errors.ReadOnlySqlTransaction, psycopg.errors.InsufficientPrivilege)
        with ramet.connect(shop, **bare) as connection:
            with suppress(*refusals):
                connection.execute(escape.encode())
            # Alone: the statements of one string are one transaction, which would have begun read-only.
            with pytest.raises(refusals):
                connection.execute("DELETE FROM orders")


def test_rule_23_a_wrong_password_has_its_known_sqlstate(ramet: Ramet, shop: Service) -> None:
    done = subprocess.run(
        ["psql", ramet.address(shop, password="wrong"), "-X", "-c", "SELECT 1"],
        capture_output=True, text=True, timeout=250, check=False, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )  # fmt: skip
    assert done.returncode == 2
    assert "password authentication failed" in done.stderr


def test_rule_23_clients_before_ready_are_asked_to_retry_and_never_refused_for_their_password(
    ramet: Ramet, shop: Service
) -> None:
    fork = ramet.fork(shop, name="knocked at")
    errors = knock(ramet, fork)
    ramet.wait(fork, "READY")
    ramet.post(fork, "stop")
    ramet.wait(fork, "PAUSED")
    ramet.post(fork, "start")
    errors |= knock(ramet, fork)
    assert errors
    assert all(any(known in text for known in COME_BACK) for text in errors), errors
    ramet.wait(fork, "READY")
    ramet.delete(fork)


def knock(ramet: Ramet, service: Service) -> set[str]:
    """Try to connect until it succeeds; return the answers until then."""
    errors: set[str] = set()

    def is_in() -> bool:
        try:
            ramet.connect(service).close()
        except psycopg.OperationalError as error:
            errors.add(str(error))
            return False
        return True

    eventually(is_in)
    return errors


def test_forks_are_independent_of_their_parent_and_of_each_other(ramet: Ramet, shop: Service) -> None:
    first, second = (ramet.wait(ramet.fork(shop, name=f"fork {n}"), "READY") for n in range(2))
    ramet.rows(first, "DELETE FROM orders RETURNING id")
    ramet.rows(second, "INSERT INTO orders SELECT * FROM orders RETURNING id")
    counts = [ramet.rows(one, "SELECT count(*) FROM orders")[0][0] for one in (shop, first, second)]
    assert counts == [1000, 0, 2000]
    ramet.delete(first)
    ramet.delete(second)


def test_an_optimized_service_keeps_serving_and_has_fresh_statistics(ramet: Ramet, shop: Service) -> None:
    fork = ramet.wait(ramet.fork(shop, name="optimized"), "READY")
    with ramet.connect(fork) as connection:
        connection.execute("CREATE TABLE fresh AS SELECT n FROM generate_series(1, 5000) n")
    assert ramet.post(fork, "optimize").status == "OPTIMIZING"
    assert ramet.rows(fork, "SELECT 1") == [(1,)]
    ready = ramet.wait(fork, "READY")
    assert ramet.rows(ready, "SELECT reltuples::int FROM pg_class WHERE relname = 'fresh'") == [(5000,)]
    ramet.delete(ready)
