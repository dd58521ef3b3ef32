"""A trace goes from the request that forks a service over the steps of its operation."""

import pytest
from litestar.testing import TestClient
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ramet import app
from ramet.app import wire
from ramet.backends.memory.backend import MemoryBackend
from ramet.control.plane import utc_now
from ramet.monitoring.instruments import Instruments
from ramet.monitoring.monitoring import Monitoring
from ramet.monitoring.tracing import Tracing
from ramet.settings import load_settings, make_data_dir
from ramet.telemetry import trace_parent
from tests.stores import open_store

_CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    monitoring = Monitoring(Instruments("1"), Tracing("1", SimpleSpanProcessor(exporter)))
    settings = load_settings({}, data_dir=tmp_path_factory.mktemp("traced") / "data")
    make_data_dir(settings.data_dir)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "open_monitoring", lambda *_: monitoring)
        runtime = wire(settings, open_store(settings.store_url()), MemoryBackend())
    project = runtime.projects.create_project("main", utc_now())
    key, secret = runtime.projects.create_key(project.id, "test", utc_now())
    with TestClient(runtime.http()) as client:
        auth, path = (key.public_key, secret.reveal()), f"/public/api/v1/projects/{project.id}/services"
        made = client.post(path, json={"name": "shop"}, auth=auth).json()
        runtime.worker.run_until_idle()
        exporter.clear()
        fork = {"fork_strategy": "NOW"}
        headers = {"traceparent": _CALLER}
        client.post(f"{path}/{made['service_id']}/forkService", json=fork, auth=auth, headers=headers)
        runtime.worker.run_until_idle()
    runtime.close()
    return list(exporter.get_finished_spans())


def test_what_a_worker_does_after_an_operation_belongs_to_no_trace(spans: list[ReadableSpan]) -> None:
    assert spans
    assert trace_parent.get() == ""


def test_the_request_continues_the_trace_of_its_caller(spans: list[ReadableSpan]) -> None:
    request = _one(spans, "POST /public/api/v1/projects/{project_id}/services/{service_id}/forkService")
    assert request.parent is not None
    assert (f"{request.context.trace_id:032x}", f"{request.parent.span_id:016x}") == tuple(_CALLER.split("-")[1:3])
    assert request.attributes is not None
    assert request.attributes["http.response.status_code"] == 202


def test_the_operation_is_below_the_request_and_its_steps_below_it(spans: list[ReadableSpan]) -> None:
    request = _one(spans, "POST /public/api/v1/projects/{project_id}/services/{service_id}/forkService")
    operation = _one(spans, "fork")
    assert operation.parent is not None
    assert operation.parent.span_id == request.context.span_id
    for step in ("capture", "recover", "boot", "secure", "publish"):
        span = _one(spans, f"fork.{step}")
        assert span.context.trace_id == request.context.trace_id
        assert span.parent is not None
        assert span.parent.span_id == operation.context.span_id
        assert span.context.span_id != operation.context.span_id


def test_what_a_fork_submits_belongs_to_its_trace(spans: list[ReadableSpan]) -> None:
    assert _one(spans, "snapshot").context.trace_id == _one(spans, "fork").context.trace_id


def _one(spans: list[ReadableSpan], name: str) -> ReadableSpan:
    (found,) = [span for span in spans if span.name == name]
    return found
