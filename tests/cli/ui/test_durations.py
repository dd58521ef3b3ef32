"""Durations, typed and shown."""

import time
from datetime import UTC, datetime

import pytest

from ramet.cli.ui.durations import absolute_time, parse_duration, shown_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90s", 90), ("30m", 1800), ("1h30m", 5400), ("1d", 86400), ("50ms", 0.05), ("1.5s", 1.5)),
        *(("10 minutes", 600), ("1 hour 30 min", 5400), ("1 day", 86400), (" 30 m ", 1800), ("2 milliseconds", 0.002)),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "30", "m", "30 parsecs", "m 30", "-5s", "5s!", "1h-3m"])
def test_any_other_text_is_not_a_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "250 ms"), (2.5, "2.5 s"), (65, "1 min 5 s"), (7260, "2 h 1 min")]
)
def test_a_duration_is_shown(seconds: float, text: str) -> None:
    assert shown_duration(seconds) == text


@pytest.mark.parametrize("text", ["10 minutes ago", "10m ago", "10m", "600 s ago", "10 minutes  ago"])
def test_a_relative_time_is_subtracted_from_now(text: str) -> None:
    now = datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
    assert absolute_time(text, now) == "2025-12-31T23:50:00.000005Z"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-01-15 10:30", "2026-01-15T05:00:00.000000Z"),
        ("2026-01-15T10:30:05.25", "2026-01-15T05:00:05.250000Z"),
        ("14:03", "2026-07-01T08:33:00.000000Z"),
        ("18:00:01", "2026-06-30T12:30:01.000000Z"),  # not yet today
    ],
)
def test_a_time_without_a_zone_is_in_that_of_the_host(text: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert absolute_time(text, datetime(2026, 7, 1, 12, 30, tzinfo=UTC)) == found
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01 00:00",
        "9999-12-31 23:59",
        "2026-01-15T10:30:00+02:00",
        "25:99",
        "2026-02-30 10:00",
        "yesterday",
        "ago",
        "",
        "9999999 days ago",
    ],
)
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/Lima"])
def test_any_other_time_is_passed_on_unchanged(text: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert absolute_time(text, datetime(2026, 1, 1, tzinfo=UTC)) == text
    finally:
        monkeypatch.undo()
        time.tzset()
