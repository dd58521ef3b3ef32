"""Errors to HTTP: each kind has its status, and an unexpected one shows no internals."""

import base64
import logging

import pytest

from ramet.endpoints import BASE_PATH
from ramet.errors import Error, Exhausted, Failed, Forbidden, Invalid, NotFound, TooLarge, Unavailable, WrongState
from tests.api.world import World
from tests.audited import entries_of
from tests.disconnecting import status_of_disconnected

_LIST = "ramet.control.listing.Listing.list_services"


def _raise(monkeypatch: pytest.MonkeyPatch, verb: str, error: Exception) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(verb, fail)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (Invalid, 400),
        (WrongState, 400),
        (Exhausted, 400),
        (Forbidden, 403),
        (NotFound, 404),
        (TooLarge, 413),
        (Unavailable, 503),
    ],
)
def test_each_error_has_its_status(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: type[Error], status: int
) -> None:
    _raise(monkeypatch, _LIST, kind("SOME_CODE", "Something is so", "Do that."))
    answer = world.get(world.services_path)
    assert answer.status_code == status
    assert answer.json() == {"code": "SOME_CODE", "message": "Something is so", "details": "Do that."}
    assert ("retry-after" in answer.headers) == (status == 503)


def test_empty_details_are_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, _LIST, Invalid("SOME_CODE", "Something is so"))
    assert world.get(world.services_path).json() == {"code": "SOME_CODE", "message": "Something is so"}


def test_polling_one_service_never_meets_a_503(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(
        monkeypatch,
        "ramet.control.services.get_service",
        Unavailable("STORE_UNAVAILABLE", "The store cannot be reached"),
    )
    answer = world.get(world.path("a000000000"))
    assert (answer.status_code, answer.json()["code"]) == (500, "STORE_UNAVAILABLE")


def test_a_client_that_disconnects_while_it_sends_a_body_is_no_fault(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    login = "Basic " + base64.b64encode(":".join(world.tenant.credentials).encode()).decode()
    asked = status_of_disconnected(world.client.app, world.services_path, {}, "application/json", login)
    assert (asked, world.listed()) == (400, [])
    assert not [one for one in caplog.records if one.levelname == "ERROR"]
    assert [one.code for one in entries_of(world.store)] == ["BODY_INCOMPLETE"]


@pytest.mark.parametrize("fault", [RuntimeError("the inside"), Failed("HOST_BROKEN", "the inside"), KeyError("inside")])
def test_a_fault_is_a_500_that_shows_nothing_and_is_logged_once_with_its_reference(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    _raise(monkeypatch, _LIST, fault)
    with caplog.at_level(logging.WARNING):
        answer = world.get(world.services_path)
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
    assert "the inside" not in answer.text
    reference = answer.json()["details"].removeprefix("reference ")
    logged = [record for record in caplog.records if reference in record.getMessage()]
    assert len(logged) == 1
    assert logged[0].exc_info is not None


def test_no_answer_or_log_holds_a_secret(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        service = world.create()
        world.work()
        texts = [world.get(path).text for path in (world.services_path, f"{BASE_PATH}/auth/info")]
    for secret in (service["initial_password"], world.tenant.secret.reveal()):
        assert all(secret not in text for text in (*texts, caplog.text))
