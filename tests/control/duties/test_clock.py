"""The time that retention trusts, over processes and with files that cannot be used."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ramet.control.duties.clock import TrustedTime

YEAR = timedelta(days=365)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How far the wall clock is ahead of the host's, in its only element."""
    seconds, now = [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: now() + seconds[0])
    return seconds


def is_now(instant: datetime) -> bool:
    return abs(instant - datetime.now(UTC)) < timedelta(minutes=5)


def test_a_step_is_not_followed_by_this_process_nor_by_the_next(tmp_path: Path, ahead: list[float]) -> None:
    path = tmp_path / "clock.json"
    trusted = TrustedTime(path)
    assert is_now(trusted.now())
    ahead[0] = YEAR.total_seconds()
    for each in (trusted, TrustedTime(path), trusted):
        assert is_now(each.now())
    ahead[0] = 0.0
    assert is_now(TrustedTime(path).now())


@pytest.mark.parametrize("content", [b"", b"{", b'{"reading": 1}'])
def test_a_file_that_cannot_be_read_is_made_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "clock.json"
    path.write_bytes(content)
    assert is_now(TrustedTime(path).now())
    assert path.read_bytes() != content


def test_what_a_killed_process_has_left_beside_the_file_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "clock.json.1"
    left.write_bytes(b"")
    os.utime(left, (0, 0))
    TrustedTime(tmp_path / "clock.json").watch()
    assert [each.name for each in tmp_path.iterdir()] == ["clock.json"]


def test_a_step_is_seen_though_nothing_can_be_written(tmp_path: Path, ahead: list[float]) -> None:
    trusted = TrustedTime(tmp_path / "missing" / "clock.json")
    trusted.watch()
    ahead[0] = YEAR.total_seconds()
    assert is_now(trusted.now())
