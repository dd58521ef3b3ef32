"""The way to an endpoint is tried from here, and only where there is one."""

import time
from dataclasses import replace

import pytest

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.kubernetes import route
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.site import Exposure
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.servers import SHARED


def test_an_endpoint_whose_name_has_no_address_here_is_not_waited_for() -> None:
    nowhere, way = replace(SHARED, host="ramet-abcdefghij.services.svc.invalid"), route.Route()
    assert way.answers(nowhere)
    assert not way.leads_to(nowhere)


def test_a_host_that_leads_nowhere_is_not_tried_again_for_each_endpoint(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(route, "_ANSWER_SECONDS", 0.0)
    way, closed = route.Route(), replace(SHARED, host="127.0.0.1", port=free_port())
    for _ in range(2):
        assert not way.leads_to(closed)
        eventually(lambda: way.answers(closed))
    assert [one.message for one in caplog.records] == ["the endpoints on 127.0.0.1 cannot be reached from here"]


def test_a_service_is_ready_when_its_load_balancer_has_an_address_and_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    known: set[str] = set()
    monkeypatch.setattr(route, "_has_address", lambda host: host in known)
    server = replace(SHARED, host="ramet-abcdefghij.db.example.com")
    with in_cluster(exposure=Exposure.LOADBALANCER) as (found, place):
        backend = KubernetesBackend(place)
        found.answer = lambda pod, command, stdin: ("t\n", "", 0)
        backend.servers.initialize(server)
        eventually(lambda: "load balancer" in backend.servers.await_ready(server, 0).progress)
        service = found.objects[("services", "ramet-abcdefghij")]
        found.put("services", {**service, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}})
        readiness = backend.servers.await_ready(server, 0)
        assert readiness.progress == "The name ramet-abcdefghij.db.example.com has no address yet."
        known.add(server.host)
        assert backend.servers.await_ready(server, 0).ready


def test_that_a_domain_has_no_names_here_is_believed_after_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(route, "_has_address", lambda host: False)
    way, server = route.Route(), replace(SHARED, host="ramet-abcdefghij.db.example.com")
    assert not way.has_name(server)
    monkeypatch.setattr(route, "_NAME_SECONDS", 0.0)
    assert way.has_name(server)
    assert way.has_name(replace(server, service_id="klmnopqrst", host="ramet-klmnopqrst.db.example.com"))
    assert [one.message for one in caplog.records] == [
        "the names of endpoints in db.example.com have no addresses here"
    ]


def test_one_endpoint_that_is_silent_says_nothing_of_a_host_that_others_have_answered_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering: set[int] = {15432}
    monkeypatch.setattr(route, "_ANSWER_SECONDS", 0.0)
    monkeypatch.setattr(route, "_asks_password", lambda server: server.port in answering)
    way, silent = route.Route(), replace(SHARED, service_id="klmnopqrst", host="127.0.0.1", port=15433)
    assert way.answers(replace(SHARED, host="127.0.0.1"))
    eventually(lambda: way.answers(silent))
    answering.add(15434)
    assert way.leads_to(replace(silent, port=15434)), "the host is still tried"


def test_how_long_an_endpoint_was_silent_is_forgotten_when_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    answering: set[int] = set()
    monkeypatch.setattr(route, "_asks_password", lambda server: server.port in answering)
    way, server = route.Route(), replace(SHARED, host="127.0.0.1")
    assert not way.answers(server)
    answering.add(server.port)
    assert way.leads_to(server)
    answering.clear()
    now = time.monotonic() + 3600
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert not way.answers(server), "it is silent again only now"


def test_one_name_without_an_address_says_nothing_of_a_domain_that_has_names(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"ramet-abcdefghij.db.example.com"}
    monkeypatch.setattr(route, "_has_address", lambda host: host in known)
    monkeypatch.setattr(route, "_NAME_SECONDS", 0.0)
    way, server = route.Route(), replace(SHARED, host="ramet-abcdefghij.db.example.com")
    assert way.has_name(server)
    late = replace(server, service_id="klmnopqrst", host="ramet-klmnopqrst.db.example.com")
    eventually(lambda: way.has_name(late))
    monkeypatch.setattr(route, "_NAME_SECONDS", 300.0)
    assert not way.has_name(replace(server, service_id="uvwxyzabcd", host="ramet-uvwxyzabcd.db.example.com"))
