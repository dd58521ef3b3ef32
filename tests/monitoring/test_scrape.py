"""What /metrics shows, and to whom."""

import base64
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
import sqlalchemy as sa
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from harness.waiting import BOUND_SECONDS
from ramet.api.threads import THREADS
from ramet.backends.memory.backend import MemoryBackend
from ramet.control.duties.health import Health
from ramet.control.plane import Plane, utc_now
from ramet.errors import Invalid, Unavailable
from ramet.model.keys import KeyLimits
from ramet.model.metrics import SERIES
from ramet.model.procedures import ProcedureName
from ramet.model.rights import Role
from ramet.monitoring import scrape
from ramet.monitoring.scrape import Access, Asker
from ramet.monitoring.service_collector import MEANINGS, service_metrics
from ramet.store import listed_services, monitoring, replica_sets
from ramet.store import services as rows
from ramet.store.database import Store
from tests.monitoring.conftest import TOKEN, Monitored

_LOCAL = {"host": "localhost:8080"}


def test_requests_are_counted_by_route_template(monitored: Monitored) -> None:
    project = monitored.keys[0].project_id
    for path in (f"/public/api/v1/projects/{project}/services", "/nothing/here", "/nothing/there"):
        monitored.client.get(path, auth=(monitored.keys[0].public_key, monitored.secrets[0]))
    labels = [s.labels for s in _samples(monitored.everything(), "ramet_http_request_seconds_count")]
    listing = {"route": "/public/api/v1/projects/{project_id}/services", "method": "GET", "status": "200"}
    assert listing in labels
    assert {label["route"] for label in labels if label["status"] == "404"} == {"unmatched"}
    assert project not in str(labels)


def test_methods_that_nobody_defined_are_one(monitored: Monitored) -> None:
    for method in ("BREW", "STEEP"):
        monitored.client.request(method, "/public/api/v1/projects")
    found = {s.labels["method"] for s in _samples(monitored.everything(), "ramet_http_request_seconds_count")}
    assert "other" in found
    assert not found & {"BREW", "STEEP"}


def test_a_fork_is_timed_by_its_parts(monitored: Monitored) -> None:
    text = monitored.everything()
    parts = {s.labels["part"] for s in _samples(text, "ramet_fork_part_seconds_count") if s.labels["strategy"] == "NOW"}
    assert parts == {"capture", "recover", "boot", "secure", "publish"}
    ended = {(s.labels["procedure"], s.labels["outcome"]) for s in _samples(text, "ramet_operation_seconds_count")}
    assert {("fork", "succeeded"), ("create", "succeeded")} <= ended


def test_each_procedure_has_its_failures_before_the_first_one(monitored: Monitored) -> None:
    """An alert on the increase of a series does not see the failure that the series begins with."""
    found = _samples(monitored.everything(), "ramet_operation_seconds_count")
    failed = {s.labels["procedure"]: s.value for s in found if s.labels["outcome"] == "failed"}
    assert failed == dict.fromkeys(ProcedureName, 0.0)


def test_a_service_has_what_was_measured_last(monitored: Monitored) -> None:
    text = monitored.everything()
    mine = next(s.labels for s in _samples(text, "ramet_service_info") if s.labels["name"] == monitored.names[0])
    for name in SERIES:
        assert any(s.labels["service_id"] == mine["service_id"] for s in _samples(text, name)), name
    assert {"replica_set", "node"} <= {label for s in _samples(text, "ramet_cpu_seconds_total") for label in s.labels}


def test_every_series_has_a_meaning() -> None:
    assert MEANINGS.keys() == SERIES.keys()


def test_a_key_reads_the_services_of_its_project_only(monitored: Monitored) -> None:
    key, secret = monitored.keys[0], monitored.secrets[0]
    pair = base64.b64encode(f"{key.public_key}:{secret}".encode()).decode()
    for header in (f"Basic {pair}", f"Bearer {key.public_key}:{secret}"):
        answer = monitored.scrape(authorization=header)
        assert answer.status_code == 200
        assert monitored.names[0] in answer.text
        assert monitored.names[1] not in answer.text
        assert monitored.keys[1].project_id not in answer.text
        assert not [name for name in ("ramet_http", "process_", "ramet_operation") if name in answer.text]


def test_scrapes_of_a_key_hold_up_neither_the_operator_nor_another_project(
    monitored: Monitored, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, may_end, begun = monitored.keys[0].project_id, threading.Event(), threading.Event()

    def wait(plane: Plane, project_id: str | None) -> Iterable[Metric]:
        if project_id == slow:
            begun.set()
            assert may_end.wait(BOUND_SECONDS)
        return service_metrics(plane, project_id)

    monkeypatch.setattr(scrape, "service_metrics", wait)
    keys = [f"Bearer {key.public_key}:{secret}" for key, secret in zip(monitored.keys, monitored.secrets, strict=True)]
    with ThreadPoolExecutor(THREADS + 2) as clients:
        sent = [clients.submit(monitored.scrape, authorization=keys[0]) for _ in range(THREADS)]
        try:
            assert begun.wait(BOUND_SECONDS)
            for header, name in ((keys[1], "ramet_service_info"), (f"Bearer {TOKEN}", "ramet_build_info")):
                answer = clients.submit(monitored.scrape, authorization=header).result(BOUND_SECONDS)
                assert name in answer.text
        finally:
            may_end.set()
    assert {done.result().status_code for done in sent} == {200}


def test_a_scrape_of_a_key_reads_the_rows_of_its_project_only(monitored: Monitored) -> None:
    with monitored.runtime.store.read() as tx:
        found = rows.live_services(tx)
        own = [each.id for each in found if each.project_id == monitored.keys[0].project_id]
        assert len(own) < len(found)
        for read in (
            partial(monitoring.newest_samples, tx, utc_now() - timedelta(days=1)),
            partial(monitoring.snapshot_times, tx),
        ):
            everything = read()
            assert dict(read(own)) == {key: value for key, value in everything.items() if key in own}
            assert len(read(own)) < len(everything)


def test_a_scrape_of_the_operator_reads_the_samples_of_what_exists_only(
    monitored: Monitored, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str] | None] = []
    newest = monitoring.newest_samples

    def noted(tx: sa.Connection, since: datetime, subjects: Sequence[str] | None = None) -> object:
        asked.append(subjects)
        return newest(tx, since, subjects)

    monkeypatch.setattr(monitoring, "newest_samples", noted)
    list(service_metrics(monitored.runtime.plane, None))
    with monitored.runtime.store.read() as tx:
        living = [each.id for each in rows.live_services(tx)] + [each.id for each in replica_sets.live_sets(tx)]
    assert asked == [living]


def test_a_forker_reads_nothing_of_its_project(monitored: Monitored) -> None:
    project = monitored.keys[0].project_id
    with monitored.runtime.store.read() as tx:
        parent = listed_services.list_services(tx, project, utc_now())[0]
    limits = KeyLimits(parents=(parent.id,))
    key, secret = monitored.runtime.projects.create_key(project, "ci", utc_now(), role=Role.FORKER, limits=limits)
    answer = monitored.scrape(authorization=f"Bearer {key.public_key}:{secret.reveal()}")
    assert answer.status_code == 403
    assert "ramet_" not in answer.text


@pytest.mark.parametrize(
    "header", ["", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", "Bearer RKX:y", f"Bearer {TOKEN}x"]
)
def test_nobody_else_reads_anything(monitored: Monitored, header: str) -> None:
    answer = monitored.scrape(**({"authorization": header} if header else {}))
    assert answer.status_code == 401
    assert "ramet_" not in answer.text


def test_a_token_that_was_replaced_counts_at_once(monitored: Monitored) -> None:
    file = monitored.runtime.settings.metrics_token_file
    assert file is not None
    file.write_text("another-token-for-a-while")
    try:
        assert monitored.scrape(authorization=f"Bearer {TOKEN}").status_code == 401
        file.write_text("short")
        assert monitored.scrape(authorization="Bearer short").status_code == 401
    finally:
        file.write_text(TOKEN)
    assert monitored.scrape(authorization=f"Bearer {TOKEN}").status_code == 200


@pytest.mark.parametrize("content", [b"short", b"long enough, \xfe\xff not UTF-8"])
def test_a_token_that_is_none_is_refused_at_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(Invalid, match="16 or more"):
        Access(tmp_path / "token", loopback=False).token()


def test_this_host_reads_without_credentials_only_by_setting(monitored: Monitored) -> None:
    scrape = monitored.runtime.scrape()
    local = replace(scrape, access=Access(None, loopback=True))
    assert b"ramet_build_info" in local.text(Asker(_LOCAL, "127.0.0.1"))[0]
    assert b"ramet_build_info" in local.text(Asker({"host": "[::1]:8080"}, "::1"))[0]
    refused = [
        (scrape, _LOCAL, "127.0.0.1"),
        (local, _LOCAL, "192.0.2.1"),
        (local, {"host": "attacker.example"}, "127.0.0.1"),
        *((local, {**_LOCAL, name: "x"}, "127.0.0.1") for name in ("x-forwarded-for", "forwarded", "via", "origin")),
    ]
    for who, headers, address in refused:
        with pytest.raises(Exception, match="carries neither"):
            who.text(Asker(headers, address))


@pytest.mark.parametrize("archived", [True, False], ids=["archived", "not known until when"])
def test_the_window_is_that_of_the_archive_once_it_is_known_until_when_that_goes(
    monitored: Monitored, archived: bool
) -> None:
    (listed, *_), now = _samples(monitored.everything(), "ramet_archive_base_age_seconds"), utc_now()
    service_id, a_day_ago = listed.labels["service_id"], now - timedelta(days=1)
    with monitored.runtime.store.write() as tx:
        rows.update_service(tx, service_id, archive_from=a_day_ago, archived_until=now if archived else None)
    found = _samples(monitored.everything(), "ramet_restore_window_seconds")
    (window,) = (s.value for s in found if s.labels["service_id"] == service_id)
    with monitored.runtime.store.write() as tx:
        rows.update_service(tx, service_id, archive_from=None, archived_until=None)
    assert (window >= 86_400) is archived


def test_restarts_of_a_server_that_was_down_are_counted_for_half_an_hour(monitored: Monitored) -> None:
    runtime, backend = monitored.runtime, monitored.runtime.backend
    assert isinstance(backend, MemoryBackend)
    service_id = _samples(monitored.everything(), "ramet_service_info")[0].labels["service_id"]

    def counted(plane: Plane) -> dict[str, float]:
        metrics = {metric.name: metric.samples for metric in service_metrics(plane, None)}
        return {one.labels["service_id"]: one.value for one in metrics["ramet_service_restarts"]}

    assert set(counted(runtime.plane).values()) == {0.0}
    for _ in range(2):
        backend.crash(service_id)
        Health(runtime.plane).inspect()
        runtime.worker.run_until_idle()
        assert backend.volumes[service_id].running
    found = counted(runtime.plane)
    assert found.pop(service_id) == 2
    assert set(found.values()) == {0.0}
    later = replace(runtime.plane, clock=lambda: utc_now() + timedelta(minutes=31))
    assert counted(later)[service_id] == 0


def test_a_scrape_says_that_the_store_is_down(monitored: Monitored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "read", _unreachable)
    text = monitored.everything()
    assert [s.value for s in _samples(text, "ramet_store_up")] == [0.0]
    assert not _samples(text, "ramet_service_info")


def test_the_number_of_series_is_bounded_by_services_and_routes(monitored: Monitored) -> None:
    before = len(monitored.everything().splitlines())
    for number in range(30):
        monitored.client.get(f"/public/api/v1/projects/p{number}/services/s{number}")
    assert len(monitored.everything().splitlines()) - before < 40


def test_openmetrics_is_answered_where_it_is_accepted(monitored: Monitored) -> None:
    accept = "application/openmetrics-text; version=1.0.0"
    answer = monitored.scrape(authorization=f"Bearer {TOKEN}", accept=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def _unreachable(_: Store) -> NoReturn:
    raise Unavailable("STORE_UNAVAILABLE", "The store cannot be reached now")


def _samples(text: str, name: str) -> list[Sample]:
    return [s for family in text_string_to_metric_families(text) for s in family.samples if s.name == name]
