"""Upgrades of real servers, by the whole product: from the oldest version of this host to the newest."""

import pytest

from harness.instance import Instance, connect
from ramet.api.schemas.services import Service
from ramet.model.status import OperationStatus
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
        begun = client.upgrade_service(service.service_id, NEW)
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
        assert [one.name for one in client.list_services()] == ["shop"]
    with connect(service.endpoint.port, password) as connection:
        version = connection.execute("SHOW server_version_num").fetchone()
    assert version is not None
    assert int(version[0]) // 10000 == OLD
    assert ramet.leftovers() == []
