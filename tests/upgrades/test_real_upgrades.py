"""Upgrades of real servers, by the whole product: from the oldest version of this host to the newest."""

import psycopg
import pytest

from harness.instance import Instance, connect
from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.client import ApiError, ForkStrategy
from ramet.machine.installation import find_installations
from ramet.model.status import OperationStatus
from ramet.model.wal_level import WalLevel
from tests.upgrades.conftest import NEW, OLD, SCHEMA

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def made(ramet: Instance, name: str) -> tuple[Service, str]:
    """Return a READY service with the schema, and its password."""
    with ramet.client() as client:
        accepted = client.create_service(name)
        ready = client.wait_ready(accepted.service_id, timeout_seconds=240)
    password = str(accepted.initial_password)
    with connect(ready.endpoint.port, password) as connection:
        for statement in filter(str.strip, SCHEMA.split(";\n")):
            connection.execute(statement.encode())
        for _ in range(5):
            connection.execute("SELECT total FROM totals WHERE customer_id = %s", (7,))
            connection.execute("SELECT name FROM customer JOIN orders o ON o.customer_id = customer.id WHERE o.id = 9")
    return ready, password


def test_a_trial_reports_and_leaves_the_service_alone(ramet: Instance) -> None:
    service, password = made(ramet, "shop")
    with ramet.client() as client:
        begun = client.upgrade_service(service.service_id, NEW, trial=True)
        found = client.wait_upgraded(service.service_id, begun.upgrade_id, 500)
        assert found.status is OperationStatus.SUCCEEDED, found.error
        assert found.from_version.startswith(f"{OLD}.")
        assert found.to_version.startswith(f"{NEW}.")
        assert (found.row_differences, found.problems) == ([], [])
        assert found.rows is not None
        assert found.rows >= 24_000
        assert found.plans is not None
        assert any("totals" in one.statement and one.before for one in found.plans)
        assert {one.name for one in found.extensions} >= {"pg_trgm", "pg_stat_statements"}
        assert found.downtime_seconds is not None
        assert begun.upgrade_id not in {one.service_id for one in client.list_services()}
    with connect(service.endpoint.port, password) as connection:
        version = connection.execute("SHOW server_version_num").fetchone()
    assert version is not None
    assert int(version[0]) // 10000 == OLD
    assert ramet.leftovers() == []


def test_a_service_is_upgraded_at_its_endpoint_and_its_state_before_remains(ramet: Instance) -> None:
    service, password = made(ramet, "moving")
    with connect(service.endpoint.port, password) as connection:
        connection.execute("CREATE TABLE ledger (n int PRIMARY KEY)")
        connection.execute("INSERT INTO ledger SELECT generate_series(1, 500)")
    with ramet.client() as client:
        login = client.create_login(service.service_id)
        begun = client.upgrade_service(service.service_id, NEW)
        with connect(service.endpoint.port, password) as connection:
            connection.execute("INSERT INTO ledger VALUES (501)")  # during the trial
        found = client.wait_upgraded(service.service_id, begun.upgrade_id, 500)
        assert found.status is OperationStatus.SUCCEEDED, found.error
        assert found.stopped_seconds is not None
        after = client.wait_ready(service.service_id, timeout_seconds=60)
        assert after.endpoint == service.endpoint
        assert after.metadata.pg_major == NEW
        (before,) = [one for one in client.list_services() if one.service_id == found.previous_service_id]
        assert (before.name, before.status, before.metadata.pg_major) == (f"moving-before-{NEW}", "PAUSED", OLD)
    with connect(service.endpoint.port, password) as connection:
        assert _number(connection, "SELECT count(*) FROM ledger") == 501
        assert _number(connection, "SHOW server_version_num") // 10000 == NEW
        assert _number(connection, "SELECT count(*) FROM orders") == 20_000
        connection.execute("INSERT INTO ledger VALUES (502)")
        connection.execute("ALTER ROLE app SET work_mem = '8MB'")  # the admin still manages the tenants' roles
        connection.execute("SELECT timescale_functions.create_bare_readonly_role('later', 'later-secret')")
        assert _number(connection, "INSERT INTO telling (n) VALUES (51) RETURNING twice") == 52
        assert _number(connection, "SELECT (pair).number + told_twice(4) FROM told_pairs") == 7
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("SELECT '{0}'::told_strictly[]")
    with connect(service.endpoint.port, "app-secret", user="app") as connection:
        assert _number(connection, "SELECT count(*) FROM customer") == 2000
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(service.endpoint.port, login.password, user=login.role)
    _both_can_be_forked(ramet, service.service_id, str(found.previous_service_id))
    ramet.await_idle()
    assert ramet.leftovers() == []


def _number(connection: "psycopg.Connection[tuple[object, ...]]", query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(str(row[0]))


def _both_can_be_forked(ramet: Instance, after_id: str, before_id: str) -> None:
    """Fork the upgraded service, and the state before; resume that one with the password that it had."""
    for service_id, rows in ((after_id, 502), (before_id, 501)):
        with ramet.client() as client:
            fork = client.fork_service(service_id, ForkStrategy.NOW)
            ready = client.wait_ready(fork.service_id, timeout_seconds=240)
            with connect(ready.endpoint.port, str(fork.initial_password)) as connection:
                assert _number(connection, "SELECT count(*) FROM ledger") == rows
            client.delete_service(fork.service_id)
            client.wait_deleted(fork.service_id, timeout_seconds=120)
    with ramet.client() as client:
        client.start_service(before_id)
        resumed = client.wait_ready(before_id, timeout_seconds=120)
    with connect(resumed.endpoint.port, "app-secret", user="app") as connection:
        assert _number(connection, "SHOW server_version_num") // 10000 == OLD


def test_logical_replication_and_a_pooler_stay_and_slots_are_refused(ramet: Instance) -> None:
    with ramet.client() as client:
        accepted = client.create_service("publisher", wal_level=WalLevel.LOGICAL)
        service = client.wait_ready(accepted.service_id, timeout_seconds=240)
        client.enable_pooler(service.service_id)
        ramet.await_idle()
        pooler = client.get_service(service.service_id).connection_pooler
    password = str(accepted.initial_password)
    with connect(service.endpoint.port, password) as connection:
        connection.execute("CREATE TABLE ledger (n int PRIMARY KEY)")
        connection.execute("CREATE PUBLICATION pub FOR TABLE ledger")
        connection.execute("SELECT lo_from_bytea(4242, 'large')")
        connection.execute("SELECT pg_create_logical_replication_slot('elsewhere', 'pgoutput')")
        with ramet.client() as client, pytest.raises(ApiError, match="replication slots elsewhere"):
            client.upgrade_service(service.service_id, NEW)
        connection.execute("SELECT pg_drop_replication_slot('elsewhere')")
    with ramet.client() as client:
        begun = client.upgrade_service(service.service_id, NEW)
        found = client.wait_upgraded(service.service_id, begun.upgrade_id, 500)
        assert found.status is OperationStatus.SUCCEEDED, found.error
        client.wait_ready(service.service_id, timeout_seconds=60)
        assert client.get_service(service.service_id).connection_pooler == pooler is not None
    for port in (service.endpoint.port, pooler.endpoint.port):
        with connect(port, password) as connection:
            assert _number(connection, "SHOW server_version_num") // 10000 == NEW
            assert _number(connection, "SELECT length(lo_get(4242))") == 5
    with connect(service.endpoint.port, password) as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        assert connection.execute("SELECT pubname FROM pg_publication_tables").fetchall() == [("pub",)]
        connection.execute("SELECT pg_create_logical_replication_slot('again', 'pgoutput')")
        connection.execute("SELECT pg_drop_replication_slot('again')")


def _only_in_old() -> list[str]:
    """Return the extensions that tenants can create in the old version, and that the new one here does not have."""
    old, new = (find_installations().of(major).share / "extension" for major in (OLD, NEW))
    trusted = {file.stem for file in old.glob("*.control") if "trusted = true" in file.read_text()}
    return sorted(trusted - {file.stem for file in new.glob("*.control")})


@pytest.mark.crash
def test_an_upgrade_continues_after_ramet_was_killed_in_it(ramet: Instance) -> None:
    with ramet.client() as client:
        accepted = client.create_service("killed")
        service = client.wait_ready(accepted.service_id, timeout_seconds=240)
    password = str(accepted.initial_password)
    with connect(service.endpoint.port, password) as connection:
        connection.execute("CREATE TABLE ledger AS SELECT generate_series(1, 300) AS n")
    with ramet.client() as client:
        begun = client.upgrade_service(service.service_id, NEW)
    killed: set[tuple[str, str]] = set()

    def is_over() -> bool:
        under_way = ramet.steps("finished_at IS NULL AND procedure IN ('try_upgrade', 'upgrade')")
        for one in under_way:
            at = (one.procedure, one.step)
            if one.step in ("upgrade", "set_aside", "take_over", "serve", "open") and at not in killed:
                killed.add(at)
                ramet.kill()
                ramet.up()
        return not under_way

    eventually(is_over, what="the end of the upgrade", seconds=500)
    with ramet.client() as client:
        found = client.get_upgrade(service.service_id, begun.upgrade_id)
        assert found.status is OperationStatus.SUCCEEDED, found.error
        client.wait_ready(service.service_id, timeout_seconds=60)
    # While Ramet starts again, its worker may pass a step that is waited for here.
    assert {procedure for procedure, _ in killed} == {"try_upgrade", "upgrade"}
    with connect(service.endpoint.port, password) as connection:
        assert _number(connection, "SELECT count(*) FROM ledger") == 300
        assert _number(connection, "SHOW server_version_num") // 10000 == NEW
    ramet.await_idle()
    assert ramet.leftovers() == []


def test_an_upgrade_that_postgresql_refuses_is_reported_and_leaves_the_service(ramet: Instance) -> None:
    with ramet.client() as client:
        accepted = client.create_service("refused")
        service = client.wait_ready(accepted.service_id, timeout_seconds=240)
    password = str(accepted.initial_password)
    with connect(service.endpoint.port, password) as connection:
        connection.execute("CREATE TABLE odd (relation pg_catalog.regproc)")  # pg_upgrade: reg* data types
        for name in _only_in_old()[:1]:
            connection.execute(f'CREATE EXTENSION "{name}"'.encode())
            with ramet.client() as client, pytest.raises(ApiError, match=f"extension {name}"):
                client.upgrade_service(service.service_id, NEW)
            connection.execute(f'DROP EXTENSION "{name}"'.encode())
    with ramet.client() as client:
        begun = client.upgrade_service(service.service_id, NEW)
        found = client.wait_upgraded(service.service_id, begun.upgrade_id, 500)
    assert found.status is OperationStatus.FAILED
    assert "tsdb.public.odd.relation" in (found.error or "").replace("In database: tsdb\n  ", "tsdb.")
    with connect(service.endpoint.port, password) as connection:
        assert _number(connection, "SHOW server_version_num") // 10000 == OLD
    ramet.await_idle()
    assert ramet.leftovers() == []
