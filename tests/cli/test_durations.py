"""Durations, typed and shown."""

import pytest

from ramet.cli.durations import parse_duration, shown_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("1d", 86400), ("50ms", 0.05), ("1.5s", 1.5)]
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "30", "m", "30 m", "-5s", "5s!", "1h-3m"])
def test_anything_else_is_none(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "250 ms"), (2.5, "2.5 s"), (65, "1 min 5 s"), (7260, "2 h 1 min")]
)
def test_a_duration_is_shown(seconds: float, text: str) -> None:
    assert shown_duration(seconds) == text
