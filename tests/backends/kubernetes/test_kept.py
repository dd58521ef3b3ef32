"""What was read is kept for a while, and not without bound."""

from functools import partial
from itertools import count

from ramet.backends.kubernetes import kept
from ramet.backends.kubernetes.kept import Kept


def test_a_value_is_read_again_when_it_is_too_old() -> None:
    known, numbers = Kept[int](), count(1)

    def read(seconds: float) -> int:
        return known.of("one", seconds, lambda: next(numbers))

    assert known.last("one", 0) == 0
    assert [read(1000.0), read(1000.0), read(0.0), read(1000.0)] == [1, 1, 2, 2]
    assert known.last("one", 0) == 2


def test_the_values_that_were_read_first_are_forgotten() -> None:
    known = Kept[int]()
    for number in (*range(kept._MOST), 0, kept._MOST):
        known.of(number, 0.0, partial(int, number))
    assert (known.last(0, -2), known.last(1, -2), known.last(2, -2)) == (0, -2, 2)
