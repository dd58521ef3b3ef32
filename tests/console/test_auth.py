"""CSRF tokens and the throttle, with a clock that the tests move."""

from datetime import UTC, datetime

import pytest

from ramet.console.auth.csrf import CSRF_FIELD, CsrfTokens
from ramet.console.auth.throttle import SignInThrottle
from ramet.errors import Forbidden
from ramet.model.keys import ApiKey
from ramet.model.session import Session

_KEY = ApiKey("RKTEST", "project000", "first", "digest", datetime.now(UTC))


def _session(digest: str) -> Session:
    return Session(digest, _KEY, "main")


def test_a_csrf_token_depends_on_the_session_and_the_root_key() -> None:
    tokens = CsrfTokens(b"k" * 32)
    assert tokens.token_for(_session("one")) == tokens.token_for(_session("one"))
    assert tokens.token_for(_session("one")) != tokens.token_for(_session("two"))
    assert tokens.token_for(_session("one")) != CsrfTokens(b"x" * 32).token_for(_session("one"))


def test_a_form_needs_the_csrf_token_of_its_session() -> None:
    tokens = CsrfTokens(b"k" * 32)
    tokens.check(_session("one"), {CSRF_FIELD: tokens.token_for(_session("one"))})
    for fields in ({}, {CSRF_FIELD: ""}, {CSRF_FIELD: "ü"}, {CSRF_FIELD: tokens.token_for(_session("two"))}):
        with pytest.raises(Forbidden):
            tokens.check(_session("one"), fields)


def test_the_throttle_applies_to_a_pair_of_address_and_key_for_five_minutes() -> None:
    now = [0.0]
    throttle, attempt = SignInThrottle(clock=lambda: now[0]), ("here", "RK1")
    for _ in range(10):
        assert not throttle.is_throttled(attempt)
        throttle.record_failure(attempt)
    assert throttle.is_throttled(attempt)
    assert not throttle.is_throttled(("here", "RK2"))
    assert not throttle.is_throttled(("there", "RK1"))
    now[0] = 301.0
    assert not throttle.is_throttled(attempt)


def test_four_throttled_attempts_of_a_pair_wait_at_once() -> None:
    throttle, attempt = SignInThrottle(), ("here", "RK1")
    assert [throttle.acquire(attempt) for _ in range(5)] == [True] * 4 + [False]
    assert throttle.acquire(("here", "RK2"))
    throttle.release(attempt)
    assert throttle.acquire(attempt)


def test_the_throttle_remembers_no_more_than_10_000_pairs() -> None:
    throttle = SignInThrottle()
    for _ in range(10):
        throttle.record_failure(("here", "first"))
    for number in range(9_999):
        throttle.record_failure(("here", str(number)))
    assert throttle.is_throttled(("here", "first"))
    throttle.record_failure(("here", "one more"))
    assert not throttle.is_throttled(("here", "first"))
