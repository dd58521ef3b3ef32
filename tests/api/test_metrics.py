"""Metrics over HTTP, from samples that Ramet takes itself."""

import time
from datetime import timedelta

import pytest

from ramet.backends.interface.values import Server
from ramet.control.duties import retention
from ramet.control.duties.sampling import Sampling
from ramet.control.subjects import servers_of
from ramet.model.metric_names import NOT_MEASURED
from ramet.model.timestamps import rfc3339
from ramet.store import metrics
from tests.api.world import JsonObject, World


@pytest.fixture
def service(world: World) -> JsonObject:
    return world.ready()


def sample(world: World, service: JsonObject, count: int = 4) -> Sampling:
    sampling = Sampling(world.plane)
    measured = world.backend.volumes[service["service_id"]].measured
    for n in range(count):
        measured |= {
            "ramet_cpu_seconds_total": n * 3.0,
            "ramet_memory_bytes": 50e6,
            "ramet_connections;state=idle": n,
            "ramet_blocks_total;source=cache": n * 90.0,
            "ramet_blocks_total;source=disk": n * 10.0,
        }
        sampling.sample()
        world.advance(timedelta(seconds=30))
    return sampling


def test_samples_are_taken_though_the_clock_stepped_back(world: World, service: JsonObject) -> None:
    sampling = sample(world, service)
    world.advance(timedelta(hours=-1))
    sampling.sample()
    with world.store.read() as tx:
        begin = world.clock() - timedelta(minutes=1)
        assert metrics.list_samples(tx, service["service_id"], begin, world.clock() + timedelta(minutes=1))


def read(world: World, service: JsonObject, name: str, **fields: object) -> list[JsonObject]:
    now = world.clock()
    body = {"name": name, "from": rfc3339(now - timedelta(minutes=10)), "to": rfc3339(now), **fields}
    answer = world.post(world.path(service["service_id"], "metrics/series"), body)
    assert answer.status_code == 200, answer.text
    return list(answer.json())


def test_all_listed_series_can_be_read(world: World, service: JsonObject) -> None:
    sample(world, service)
    names = world.get(world.path(service["service_id"], "metrics/available-series")).json()
    assert "ramet_memory_bytes" in names
    assert all(isinstance(read(world, service, name), list) for name in names)


@pytest.mark.parametrize(
    "filters",
    [
        [{"key": "", "value": "idle"}],
        [{"key": "state", "value": " "}],
        [{"key": "state", "value": "idle"}, {"key": "state", "value": "active"}],
    ],
)
def test_filters_that_say_nothing_or_contradict_each_other_are_refused(
    world: World, service: JsonObject, filters: list[JsonObject]
) -> None:
    now = rfc3339(world.clock())
    body = {"name": "ramet_connections", "from": now, "to": now, "filters": filters}
    answer = world.post(world.path(service["service_id"], "metrics/series"), body)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_FILTER")


def test_a_paused_service_uses_nothing(world: World, service: JsonObject) -> None:
    sample(world, service)
    path = world.path(service["service_id"])
    assert world.get(path).json()["metrics"] is not None
    world.post(f"{path}/stop")
    world.worker.run_until_idle()
    assert (world.get(path).json()["status"], world.get(path).json().get("metrics")) == ("PAUSED", None)
    assert "metrics" not in world.listed()[0]


def test_a_series_has_labels_and_points_with_gaps_as_null(world: World, service: JsonObject) -> None:
    sample(world, service)
    (idle,) = read(world, service, "ramet_connections", fn="MAX", filters=[{"key": "state", "value": "idle"}])
    assert idle["labels"] == {"role": "primary", "state": "idle"}
    points = [point["value"] for point in idle["data"]]
    assert max(value for value in points if value is not None) == 3
    assert None in points
    assert all(point["time"].endswith("Z") for point in idle["data"])


def test_rule_29_published_names_are_aliases(world: World, service: JsonObject) -> None:
    sample(world, service)
    names = world.get(world.path(service["service_id"], "metrics/available-series")).json()
    aliases = {name for name in names if name.startswith("timescale_cloud_")}
    assert len(aliases) == 5
    assert len(aliases | NOT_MEASURED) == 15
    for alias in aliases - {"timescale_cloud_database_qps"}:
        assert read(world, service, alias)
    transactions = read(world, service, "timescale_cloud_database_qps")
    assert transactions == read(world, service, "ramet_transactions_total")
    for name in NOT_MEASURED:
        assert read(world, service, name) == []
    connections = read(world, service, "timescale_cloud_database_num_connections")
    assert connections == read(world, service, "ramet_connections")
    (cpu,) = read(world, service, "timescale_cloud_system_cpu_usage_millicores")
    points = [point["value"] for point in cpu["data"]]
    known = [value for value in points if value is not None]
    assert None in points
    assert known
    assert all(50 < value <= 100 for value in known)  # 3 s in 30 s, and what the machine took between two samples


@pytest.mark.parametrize("name", ["timescale_cloud_database_qps", "timescale_cloud_database_job_success"])
def test_rule_29_a_published_name_takes_no_function(world: World, service: JsonObject, name: str) -> None:
    body = {"name": name, "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    refused = world.post(world.path(service["service_id"], "metrics/series"), {**body, "fn": "MAX"})
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_REQUEST")


def test_the_share_of_blocks_found_in_the_cache_is_of_the_time_between_samples(
    world: World, service: JsonObject
) -> None:
    sample(world, service)
    (ratio,) = read(world, service, "ramet_cache_hit_ratio", fn="LAST")
    assert {point["value"] for point in ratio["data"]} == {None, 0.9}


def test_get_and_list_show_what_a_service_uses_now(world: World, service: JsonObject) -> None:
    assert "metrics" not in service
    world.fork(service)
    sample(world, service)
    shown = world.look(service)["metrics"]
    assert (shown["memory_mb"], shown["storage_mb"]) == (50, 0)
    assert 50 < shown["milli_cpu"] <= 100  # 3 s in 30 s, and what the machine took between two samples
    assert [one.get("metrics") for one in world.listed()] == [shown, None]
    world.advance(timedelta(minutes=5))
    assert "metrics" not in world.look(service)
    assert "metrics" not in world.listed()[0]


def test_one_that_does_not_answer_is_asked_no_more_often_than_the_others(
    world: World, service: JsonObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    silent = service["service_id"]
    other = world.ready()["service_id"]
    measure = world.backend.host.measure

    def slow(server: Server) -> dict[str, float] | None:
        asked.append(server.service_id)
        time.sleep(0.25)
        return None if server.service_id == silent else measure(server)

    monkeypatch.setattr(world.backend.host, "measure", slow)
    sampling = Sampling(world.plane)
    for _ in range(4):
        sampling.sample()
    assert sorted(asked) == sorted([silent, other])
    world.advance(timedelta(seconds=30))
    sampling.sample()
    assert len(asked) == 3


def test_a_replica_set_has_separate_series_and_usage_with_a_node_on_each_value(
    world: World, service: JsonObject
) -> None:
    body = {"name": "reports", "nodes": 2, "cpu_millis": 500, "memory_gbs": 1}
    made = world.post(world.path(service["service_id"], "replicaSets"), body).json()
    world.work()
    with world.store.read() as tx:
        nodes = servers_of(tx, made["id"])
    for number, node in enumerate(nodes):
        lag = {"ramet_replay_lag_seconds": float(number), "ramet_memory_bytes": 20e6}
        world.backend.volumes[node.service_id].measured |= lag
    sampling = Sampling(world.plane)
    for _ in range(20):  # a round ends after a fifth of a second, and the next one goes on with the rest
        sampling.sample()
    world.advance(timedelta(seconds=1))
    of_set = {"service_id": made["id"]}
    found = read(world, of_set, "ramet_replay_lag_seconds", fn="LAST")
    assert [one["labels"] for one in found] == [{"node": "0", "role": "replica"}, {"node": "1", "role": "replica"}]
    assert [one["data"][-1]["value"] for one in found] == [0, 1]
    assert world.look(of_set)["metrics"]["memory_mb"] == 40
    names, own = (
        world.get(world.path(one, "metrics/available-series")).json() for one in (made["id"], service["service_id"])
    )
    assert set(names) - set(own) == {"ramet_replay_lag_seconds"}


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "timescale_cloud_system_cpu"},
        {"from": "yesterday"},
        {"to": "2026-01-01T00:00:00"},
        {"bucket_seconds": 59},
        {"bucket_seconds": "60"},
        {"fn": "MEDIAN"},
        {"fn": "RATE", "name": "ramet_memory_bytes"},
        {"filters": [{"key": "role"}]},
        {"filters": [{"key": "role", "value": "primary", "not": True}]},
        {"filters": {"role": "primary"}},
        {"aggregate": True},
        {"bucket_seconds": 10**400},
    ],
)
def test_bad_requests_are_refused(world: World, service: JsonObject, fields: JsonObject) -> None:
    now = world.clock()
    body = {
        "name": "ramet_memory_bytes",
        "from": rfc3339(now - timedelta(hours=1)),
        "to": rfc3339(now),
        **fields,
    }
    assert world.post(world.path(service["service_id"], "metrics/series"), body).status_code == 400


@pytest.mark.parametrize(
    ("hours", "bucket_seconds", "message"),
    [(-1, 60, "from must be before to"), (24 * 30, 60, "bucket_seconds 60 makes 43200 points")],
)
def test_an_invalid_time_range_is_refused_with_its_values(
    world: World, service: JsonObject, hours: int, bucket_seconds: int, message: str
) -> None:
    now = world.clock()
    body = {
        "name": "ramet_memory_bytes",
        "from": rfc3339(now - timedelta(hours=hours)),
        "to": rfc3339(now),
        "bucket_seconds": bucket_seconds,
    }
    refused = world.post(world.path(service["service_id"], "metrics/series"), body)
    assert refused.status_code == 400
    assert message in refused.json()["message"]


@pytest.mark.parametrize("begin", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"])
@pytest.mark.parametrize("bucket_seconds", [7 * 86400, 10**9])
def test_a_time_range_that_begins_before_all_clocks_is_refused(
    world: World, service: JsonObject, begin: str, bucket_seconds: int
) -> None:
    sample(world, service)
    path = world.path(service["service_id"], "metrics/series")
    body = {"name": "ramet_memory_bytes", "from": begin, "to": rfc3339(world.clock()), "bucket_seconds": bucket_seconds}
    refused = world.post(path, body)
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_REQUEST")
    assert "from must not be before 1970-01-01" in refused.json()["message"]
    assert world.post(path, {**body, "from": "1970-01-01T00:00:00Z"}).status_code == 200


def test_old_samples_are_thinned_and_then_forgotten(world: World, service: JsonObject) -> None:
    sample(world, service, 60)

    def kept() -> int:
        with world.store.read() as tx:
            begin = world.clock() - timedelta(days=365)
            return len(metrics.list_samples(tx, service["service_id"], begin, world.clock()))

    retention.remove_samples(world.plane, world.clock())
    assert kept() == 60
    world.advance(metrics.KEPT_WHOLE)
    retention.remove_samples(world.plane, world.clock())
    assert 3 <= kept() <= 5
    world.advance(metrics.KEPT_THINNED)
    retention.remove_samples(world.plane, world.clock())
    assert kept() == 0


def test_a_paused_service_is_not_measured_and_a_gone_ones_samples_go(world: World, service: JsonObject) -> None:
    sampling = sample(world, service)
    world.post(world.path(service["service_id"], "stop"))
    world.work()
    sampling.sample()
    assert len(read(world, service, "ramet_memory_bytes")) == 1
    world.delete(world.path(service["service_id"]))
    world.work()
    retention.remove_samples(world.plane, world.clock())
    with world.store.read() as tx:
        assert metrics.list_samples(tx, service["service_id"], world.clock() - timedelta(days=1), world.clock()) == []
