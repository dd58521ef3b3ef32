"""Marks on forms, links and the brake, with a clock that the tests move."""

from ramet.console.auth.browser_secrets import LINK_SECONDS, Brake, FormMarks, Links
from ramet.model.session import Session


def _session(digest: str) -> Session:
    return Session(digest, "RKTEST", "first", "project000", "main")


def test_each_session_has_a_mark_of_its_own_that_nobody_else_can_make() -> None:
    marks = FormMarks(b"k" * 32)
    assert marks.of(_session("one")) == marks.of(_session("one"))
    assert marks.of(_session("one")) != marks.of(_session("two"))
    assert marks.of(_session("one")) != FormMarks(b"x" * 32).of(_session("one"))


def test_a_link_works_once_and_not_for_ever() -> None:
    now = [0.0]
    links = Links(lambda: now[0])
    token, late = links.make("RKTEST"), links.make("RKTEST")
    assert links.use(token) == "RKTEST"
    assert links.use(token) is None
    assert links.use("guessed") is None
    now[0] = LINK_SECONDS
    assert links.use(late) is None


def test_the_brake_is_for_an_address_with_a_key_and_lets_go_with_time() -> None:
    now = [0.0]
    brake, guess = Brake(clock=lambda: now[0]), ("here", "RK1")
    for _ in range(10):
        assert not brake.is_on(guess)
        brake.fail(guess)
    assert brake.is_on(guess)
    assert not brake.is_on(("here", "RK2"))
    assert not brake.is_on(("there", "RK1"))
    now[0] = 301.0
    assert not brake.is_on(guess)


def test_few_attempts_are_looked_at_at_once() -> None:
    brake, guess = Brake(), ("here", "RK1")
    assert [brake.enter(guess) for _ in range(5)] == [True] * 4 + [False]
    assert brake.enter(("here", "RK2"))
    brake.leave(guess)
    assert brake.enter(guess)


def test_very_many_guesses_take_no_more_memory() -> None:
    brake = Brake()
    for _ in range(10):
        brake.fail(("here", "first"))
    for number in range(9_999):
        brake.fail(("here", str(number)))
    assert brake.is_on(("here", "first"))
    brake.fail(("here", "one more"))
    assert not brake.is_on(("here", "first"))
