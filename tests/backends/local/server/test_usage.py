"""What is measured of a real server."""

from collections.abc import Iterator

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.usage import measure
from ramet.model.metrics import OF_REPLICAS, SERIES, TIMELINE
from ramet.model.passwords import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server


@pytest.fixture(scope="module")
def served(instances: Instances) -> Iterator[tuple[Server, Secret]]:
    password = new_password()
    server = new_server(instances, password)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    yield server, password
    instances.remove(server.service_id, 10)


def test_all_series_of_a_primary_are_measured_at_its_server_but_those_of_ramet(
    instances: Instances, served: tuple[Server, Secret]
) -> None:
    measured = measure(instances.paths(served[0].service_id))
    assert measured is not None
    of_ramet = {
        "ramet_cache_hit_ratio",
        "ramet_archive_lag_seconds",
        "ramet_source_lag_bytes",
        "ramet_source_lag_seconds",
        "ramet_archive_verified_age_seconds",
        "ramet_restore_verified_age_seconds",
    }
    assert {key.split(";")[0] for key in measured} - {TIMELINE} == SERIES.keys() - OF_REPLICAS - of_ramet
    assert measured[TIMELINE] == 1
    assert all(value >= 0 for value in measured.values())
    assert 1e6 < measured["ramet_memory_bytes"] < 1e9
    assert 1e7 < measured["ramet_storage_bytes"] < 1e9


def test_work_shows_in_the_counters_and_sessions_in_the_gauge(
    instances: Instances, served: tuple[Server, Secret]
) -> None:
    server, password = served
    paths = instances.paths(server.service_id)
    before = measure(paths)
    assert before is not None
    with connect(server, password) as connection:
        connection.execute("CREATE TABLE work AS SELECT n, repeat('x', 100) AS x FROM generate_series(1, 200000) n")
        connection.execute("SELECT pg_stat_force_next_flush()")

        def idle() -> bool:
            now = measure(paths)
            return now is not None and now["ramet_connections;state=idle"] >= 1

        eventually(idle)
    after = measure(paths)
    assert after is not None
    assert after["ramet_wal_bytes_total"] - before["ramet_wal_bytes_total"] > 1e7
    assert after["ramet_storage_bytes"] - before["ramet_storage_bytes"] > 1e7
    assert after["ramet_cpu_seconds_total"] > before["ramet_cpu_seconds_total"]
    assert after["ramet_transactions_total;outcome=commit"] > before["ramet_transactions_total;outcome=commit"]


def test_a_server_that_does_not_run_is_not_measured(instances: Instances) -> None:
    server = new_server(instances)
    boot(instances, server)
    assert instances.stop(server, 10)
    assert measure(instances.paths(server.service_id)) is None
    instances.remove(server.service_id, 10)
