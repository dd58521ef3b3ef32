"""The way to an endpoint is tried from here, and only where there is one."""

from dataclasses import replace

import pytest

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.kubernetes import route
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
