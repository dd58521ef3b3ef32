"""Rules 1 to 9 of docs/compatibility.md: what answers look like, and when they say what."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

import httpx
import pytest

from harness.waiting import eventually
from tests.conformance.server import Ramet
from tests.conformance.shapes import Error, Operations, Service, decode

UNKNOWN = "aaaaaaaaaa"


def test_rule_1_accepted_work_answers_202_and_all_else_its_own_status(ramet: Ramet, shop: Service) -> None:
    fork = ramet.wait(ramet.fork(shop, name="statuses"), "READY")
    ramet.post(fork, "resize", {"cpu_millis": "1000", "memory_gbs": "4"}, 202)
    ramet.wait(fork, "READY")
    ramet.post(fork, "setHA", {"sync_replica_count": 0, "replica_count": 0}, 202)
    ramet.post(fork, "rename", {"name": "renamed"}, 200)
    ramet.post(fork, "setEnvironment", {"environment": "DEV"}, 200, dict)
    ramet.post(fork, "updatePassword", {"password": "another one"}, 204, None)
    ramet.post(fork, "stop", None, 202)
    ramet.wait(fork, "PAUSED")
    ramet.post(fork, "start", None, 202)
    ramet.wait(fork, "READY")
    ramet.delete(fork)


def test_rule_2_empty_lists_are_bare_arrays(ramet: Ramet) -> None:
    assert ramet.call("GET", f"/projects/{ramet.project_id}/vpcs", 200, list) == []
    assert isinstance(ramet.services(), list)


@pytest.mark.parametrize(
    ("method", "verb", "body", "status"),
    [
        ("POST", "forkService", {"fork_strategy": "SOMETIME"}, 400),
        ("POST", "forkService", {"fork_strategy": "PITR"}, 400),
        ("POST", "start", None, 400),
        ("POST", "rename", {"name": ""}, 400),
        ("POST", "resize", {"cpu_millis": "-1", "memory_gbs": "1"}, 400),
        ("POST", "updatePassword", {}, 400),
        ("POST", "setHA", {"replica_count": 2}, 400),
        ("POST", "attachToVPC", {"vpc_id": "1"}, 400),
        ("POST", "merge", {}, 404),
        ("PATCH", "", None, 405),
    ],
)
def test_rule_3_every_error_has_the_one_shape(
    ramet: Ramet, shop: Service, method: str, verb: str, body: object, status: int
) -> None:
    path = ramet.path(shop.service_id, verb).rstrip("/")
    error = ramet.call(method, path, status, Error, **({} if body is None else {"json": body}))
    assert not error.message.endswith((".", ":", " "))
    assert ramet.get(shop).status == "READY"


@pytest.mark.parametrize("service_id", [UNKNOWN, "x", "A" * 10, "a" * 11, "%00", "é"])
def test_rule_3_an_unknown_service_is_404_with_the_known_words(ramet: Ramet, service_id: str) -> None:
    error = ramet.call("GET", ramet.path(service_id), 404, Error)
    assert error.message == "no service with that id exists"


def test_rule_3_missing_or_bad_credentials_are_401_and_another_project_403(ramet: Ramet) -> None:
    for auth in (None, ("nobody", "nothing")):
        answer = ramet.http.build_request("GET", ramet.base_url + ramet.path())
        answer.headers.pop("authorization", None)
        sent = ramet.http.send(answer, auth=auth or httpx.Auth())
        assert sent.status_code == 401
        assert decode(sent.content, Error).code == "UNAUTHORIZED"
    other = ramet.http.get(f"/projects/{UNKNOWN}/services")
    assert other.status_code == 403
    decode(other.content, Error)


def test_rule_4_polling_sees_nothing_but_200_until_ready(ramet: Ramet, shop: Service) -> None:
    fork = ramet.fork(shop, name="polled")
    statuses: set[str] = set()

    def seen() -> bool:
        statuses.add(ramet.get(fork).status)
        return "READY" in statuses

    eventually(seen)
    assert statuses <= {"QUEUED", "CONFIGURING", "READY"}
    ramet.delete(fork)


def test_rule_5_the_first_answer_is_never_the_target(ramet: Ramet, shop: Service) -> None:
    fork = ramet.fork(shop, name="first")
    assert fork.status == "QUEUED"
    ramet.wait(fork, "READY")
    assert ramet.post(fork, "resize", {"cpu_millis": "1000", "memory_gbs": "4"}).status == "UPGRADING"
    ramet.wait(fork, "READY")
    stopping = ramet.post(fork, "stop")
    assert (stopping.status, stopping.paused) == ("PAUSING", False)
    assert ramet.wait(fork, "PAUSED").paused
    assert ramet.post(fork, "start").status == "RESUMING"
    ramet.wait(fork, "READY")
    ramet.delete(fork)


def test_rule_6_what_failed_is_unstable_for_ten_seconds_then_gone_and_its_reason_stays(
    ramet: Ramet, shop: Service
) -> None:
    with ThreadPoolExecutor(2) as threads:
        assert len(list(threads.map(partial(see_fail, ramet, shop), ("create", "fork")))) == 2


def see_fail(ramet: Ramet, shop: Service, operation: str) -> None:
    """Take the port of a new service before its server listens there, and see what becomes of the service."""
    doomed = ramet.create(name="doomed") if operation == "create" else ramet.fork(shop, name="doomed")
    with socket.create_server(("127.0.0.1", doomed.endpoint.port)), socket.socket(socket.AF_INET6) as six:
        six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        six.bind(("::1", doomed.endpoint.port))
        six.listen()
        begun = time.monotonic()
        while (failed := ramet.get(doomed)).status != "UNSTABLE":
            begun = time.monotonic()  # it has not failed before this
        eventually(lambda: ramet.http.get(ramet.path(doomed.service_id)).status_code == 404)
    assert isinstance(failed.metadata.status_reason, str)
    assert "could not bind" in failed.metadata.status_reason
    assert time.monotonic() - begun >= 10
    ramet.get(doomed, 404)
    (creation,) = ramet.call("GET", ramet.path(doomed.service_id, "operations"), 200, Operations).operations
    assert (creation.status, creation.operation) == ("FAILED", operation)
    assert "could not bind" in creation.error
    assert doomed.service_id not in {service.service_id for service in ramet.services()}


def test_rule_7_a_deleted_service_ends_in_404(ramet: Ramet, shop: Service) -> None:
    fork = ramet.wait(ramet.fork(shop, name="deleted"), "READY")
    ramet.call("DELETE", ramet.path(fork.service_id), 202)
    statuses = set()
    while (answer := ramet.http.get(ramet.path(fork.service_id))).status_code == 200:
        statuses.add(decode(answer.content, Service).status)
    assert answer.status_code == 404
    assert statuses <= {"DELETING"}
    assert ramet.call("DELETE", ramet.path(fork.service_id), 404, Error).message == "no service with that id exists"


@pytest.mark.parametrize("strategy", ["NOW", "LAST_SNAPSHOT", "PITR"])
def test_rule_8_ready_means_that_the_password_opens_a_tls_session(ramet: Ramet, shop: Service, strategy: str) -> None:
    target = {"target_time": datetime.now(UTC).isoformat()} if strategy == "PITR" else {}
    fork = ramet.fork(shop, fork_strategy=strategy, name="at once", **target)
    for service in (ramet.create(name="at once"), fork):
        ramet.wait(service, "READY")
        assert ramet.rows(service, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == [(True,)]
        ramet.delete(service)


def test_rule_9_create_and_fork_tell_all_at_once_and_the_password_never_again(ramet: Ramet, shop: Service) -> None:
    fork = ramet.fork(shop, name="namesake")
    ready = ramet.wait(fork, "READY")
    assert (ready.endpoint, ready.resources, ready.forked_from) == (fork.endpoint, fork.resources, fork.forked_from)
    others = [
        ready,
        *ramet.services(),
        ramet.post(ready, "rename", {"name": "namesake"}, 200),
        ramet.post(ready, "stop"),
    ]
    assert not any(isinstance(other.initial_password, str) for other in others)
    ramet.wait(ready, "PAUSED")
    ramet.delete(ready)
