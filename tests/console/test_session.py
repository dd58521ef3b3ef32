"""Sessions, links and the brake, with a clock that the tests move."""

from dataclasses import replace
from datetime import UTC, datetime

from ramet.console.session import LINK_SECONDS, SESSION_SECONDS, Attempts, Links, Sealer, Session, new_session
from ramet.model.project import ApiKey, Project

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_KEY = ApiKey("RKTEST", "project000", "first", "0" * 64, _NOW)


def _session() -> Session:
    return new_session(_KEY, Project("project000", "Ünïcode", _NOW), 1000.0)


def test_a_sealed_session_comes_back_until_it_is_over() -> None:
    sealer, session = Sealer(b"k" * 32), _session()
    sealed = sealer.seal(session)
    assert sealer.unseal(sealed, 1000.0) == session
    assert sealer.unseal(sealed, 1000.0 + SESSION_SECONDS) is None


def test_what_another_key_sealed_or_somebody_changed_is_refused() -> None:
    sealer, session = Sealer(b"k" * 32), _session()
    assert sealer.unseal(Sealer(b"x" * 32).seal(session), 1000.0) is None
    forged = Sealer(b"k" * 32).seal(replace(session, project_id="another000")).split(".")[0]
    assert sealer.unseal(f"{forged}.{sealer.seal(session).split('.')[1]}", 1000.0) is None
    for text in ("", ".", "é.é", "a.b"):
        assert sealer.unseal(text, 1000.0) is None


def test_each_session_has_a_form_token_of_its_own() -> None:
    sealer = Sealer(b"k" * 32)
    assert sealer.form_token(_session()) != sealer.form_token(_session())


def test_a_link_works_once_and_not_for_ever() -> None:
    now = [0.0]
    links = Links(lambda: now[0])
    token, late = links.make("RKTEST"), links.make("RKTEST")
    assert links.use(token) == "RKTEST"
    assert links.use(token) is None
    assert links.use("guessed") is None
    now[0] = LINK_SECONDS
    assert links.use(late) is None


def test_the_brake_counts_an_address_and_lets_go_with_time() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for _ in range(10):
        assert attempts.wait_seconds("here") == 0
        attempts.fail("here")
    assert attempts.wait_seconds("here") == 301
    assert attempts.wait_seconds("there") == 0
    now[0] = 301.0
    assert attempts.wait_seconds("here") == 0
