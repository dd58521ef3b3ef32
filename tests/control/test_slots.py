"""How many requests may wait for databases at a time, of one project and of all."""

from contextlib import suppress

import pytest

from ramet.control.slots import Slots, examining
from ramet.errors import Unavailable


def test_a_project_and_all_projects_have_so_many() -> None:
    slots = Slots(3, 2)
    assert [slots.acquire(project) for project in ("one", "one", "one", "two", "two", "three")] == [
        True, True, False, True, False, False,
    ]  # fmt: skip
    slots.release("one")
    assert [slots.acquire("three"), slots.acquire("one")] == [True, False]


def test_an_examination_that_ends_or_fails_makes_room_for_another_one() -> None:
    slots = Slots(1, 1)
    for _ in range(2):
        with suppress(ZeroDivisionError), examining(slots, "shop"):
            assert not slots.acquire("blog")
            raise ZeroDivisionError
    with examining(slots, "blog"), pytest.raises(Unavailable, match="being examined"), examining(slots, "shop"):
        pass
