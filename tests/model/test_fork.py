"""Which restore point a fork request resolves to, and what it refuses."""

from datetime import UTC, datetime, timedelta

import pytest

from ramet.errors import Invalid
from ramet.model.fork import ForkStrategy, check_target, parse_target_time
from ramet.model.snapshot import Snapshot, SnapshotKind

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def snapshot(name: str, minutes_ago: int) -> Snapshot:
    return Snapshot(
        id=name,
        service_id="s" * 10,
        kind=SnapshotKind.SCHEDULED,
        taken_at=NOW - timedelta(minutes=minutes_ago),
        start_lsn="0/1",
        end_lsn="0/2",
        timeline=1,
        next_xid=1,
        size_bytes=1,
    )


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-15T10:30:00Z", datetime(2026, 1, 15, 10, 30, tzinfo=UTC)),
        ("2026-01-15t10:30:00z", datetime(2026, 1, 15, 10, 30, tzinfo=UTC)),
        ("2026-01-15 10:30:00+05:30", datetime(2026, 1, 15, 5, 0, tzinfo=UTC)),
        ("2026-03-29T02:30:00+01:00", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("2026-01-15T10:30:00.123456789Z", datetime(2026, 1, 15, 10, 30, 0, 123456, tzinfo=UTC)),
        ("2026-01-15T10:30:00.25-00:00", datetime(2026, 1, 15, 10, 30, 0, 250000, tzinfo=UTC)),
    ],
)
def test_a_target_time_is_read_to_the_microsecond(text: str, time: datetime) -> None:
    assert parse_target_time(text) == time


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-01-15", "2026-01-15T10:30:00", "2026-02-30T10:30:00Z", "2026-01-15T25:00:00Z",
     "0001-01-01T00:00:00+10:00", "2026-01-15T10:30:00Z\n", "２026-01-15T10:30:00Z", "2026-01-15T10:30:00+0530"],
)  # fmt: skip
def test_a_target_time_that_is_no_time_with_an_offset_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="target_time"):
        parse_target_time(text)


def test_pitr_needs_a_target_time() -> None:
    with pytest.raises(Invalid) as refusal:
        check_target(ForkStrategy.PITR, None, NOW)
    assert refusal.value.code == "TARGET_TIME_REQUIRED"


@pytest.mark.parametrize("strategy", [ForkStrategy.NOW, ForkStrategy.LAST_SNAPSHOT])
def test_other_strategies_take_no_target_time(strategy: ForkStrategy) -> None:
    with pytest.raises(Invalid) as refusal:
        check_target(strategy, "2026-01-15T10:30:00Z", NOW)
    assert refusal.value.code == "TARGET_TIME_NOT_ALLOWED"


@pytest.mark.parametrize("text", ["2026-11-21T12:00:00.000001Z", "9999-12-31T23:59:59Z"])
def test_the_future_is_refused_and_the_servers_time_is_said(text: str) -> None:
    with pytest.raises(Invalid, match="2026-11-21T12:00:00") as refusal:
        check_target(ForkStrategy.PITR, text, NOW)
    assert refusal.value.code == "TARGET_TIME_IN_FUTURE"
