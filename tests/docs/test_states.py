"""The page on statuses tells what the code does, and all statuses are reached."""

import pytest

from ramet.model.status import Status
from tests.docs import states


@pytest.mark.slow
def test_the_page_on_statuses_is_the_one_that_the_code_makes() -> None:
    assert states.PAGE.read_text() == states.page(), "run python -m tests.docs.states"


def test_every_status_is_reached_by_something_that_happens() -> None:
    assert {end for _begin, _label, end in states.moves()} == {status.value for status in Status}
