"""The log of a server, from the lines of its container."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from harness.waiting import eventually
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.errors import Failed, Invalid
from ramet.model.logs import LogPage, LogQuery
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.servers import SHARED


def line(second: int, message: str, severity: str = "LOG") -> str:
    at = f"2026-11-23 12:00:{second:02}.250 UTC"
    record = {"log_time": at, "session_id": "s", "session_line_num": str(second), "error_severity": severity}
    return json.dumps({"level": "info", "msg": "record", "record": {**record, "message": message}})


LINES = [
    json.dumps({"level": "info", "msg": "a line of the instance manager"}),
    line(1, "one"),
    line(2, "ALTER ROLE x PASSWORD 'secret'", "ERROR"),
    "no JSON",
    line(3, "three"),
]


@pytest.fixture
def backend() -> Iterator[KubernetesBackend]:
    with in_cluster() as (found, place):
        found.answer = lambda pod, command, stdin: ("\n".join(LINES), "", 0)
        made = KubernetesBackend(place)
        made.servers.initialize(SHARED)
        yield made


def test_the_log_is_read_newest_first_in_pages_without_secrets(backend: KubernetesBackend) -> None:
    first = backend.host.read_log(SHARED, LogQuery(limit=2))
    assert [entry.message for entry in first.entries] == ["three", "ALTER ROLE x PASSWORD '***'"]
    rest = backend.host.read_log(SHARED, LogQuery(limit=2, cursor=first.cursor))
    assert ([entry.message for entry in rest.entries], rest.cursor) == (["one"], None)


def test_entries_are_chosen_by_severity_and_time(backend: KubernetesBackend) -> None:
    chosen = backend.host.read_log(SHARED, LogQuery(severities=["error"]))
    assert [entry.severity for entry in chosen.entries] == ["ERROR"]
    since = LogQuery(since=datetime(2026, 11, 23, 12, 0, 3, tzinfo=UTC))
    assert [entry.message for entry in backend.host.read_log(SHARED, since).entries] == ["three"]


@pytest.mark.parametrize(("code", "reason"), [(400, "is waiting to start"), (404, "not found")])
def test_a_container_that_has_not_started_or_is_gone_has_no_log(code: int, reason: str) -> None:
    with in_cluster() as (found, place):
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        eventually(lambda: place.primary_pod(SHARED.service_id) is not None)
        found.answer = lambda pod, command, stdin: (json.dumps({"code": code, "message": reason}), "", code)
        assert backend.host.read_log(SHARED, LogQuery()) == LogPage([])


def test_a_log_that_may_not_be_read_is_an_error() -> None:
    with in_cluster() as (found, place):
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        eventually(lambda: place.primary_pod(SHARED.service_id) is not None)
        found.answer = lambda pod, command, stdin: (json.dumps({"code": 403, "message": "forbidden"}), "", 403)
        with pytest.raises(Failed, match="does not let Ramet"):
            backend.host.read_log(SHARED, LogQuery())


def test_a_cursor_of_no_page_is_refused(backend: KubernetesBackend) -> None:
    with pytest.raises(Invalid):
        backend.host.read_log(SHARED, LogQuery(cursor="?"))
