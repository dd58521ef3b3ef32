"""Which data state a fork request means, from what is known of the parent alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ramet.errors import Invalid, WrongState
from ramet.model.archive import ArchiveSpan
from ramet.model.fork import ForkStrategy
from ramet.model.gaps import Gap
from ramet.model.restore_point import Ancestor, Parent, choose
from ramet.model.snapshot import Snapshot, SnapshotKind

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def minutes_ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def snapshot(name: str, minutes: float, lsn: str = "0/2", kind: SnapshotKind = SnapshotKind.SCHEDULED) -> Snapshot:
    return Snapshot(name, "s" * 10, kind, minutes_ago(minutes), "0/1", lsn, 1, 1, 1)


KNOWN = (snapshot("old", 60, "0/2"), snapshot("middle", 30, "0/3"), snapshot("new", 10, "0/4"))
PAIR = (("first", "0/5"), ("second", "0/6"))
CLOCK_BACK = (snapshot("first", 60, "0/2"), snapshot("ahead", 5, "0/3"), snapshot("after", 30, "0/4"))
GAP = Gap(minutes_ago(40), minutes_ago(35), "WAL segment 000000010000000000000003 is missing.")


def parent(**changes: Any) -> Parent:
    return Parent(**{"service_id": "s" * 10, "created_at": minutes_ago(90), "snapshots": KNOWN, **changes})


@pytest.mark.parametrize(
    ("strategy", "target", "snapshot_id", "known", "base"),
    [
        ("NOW", None, None, {}, None),
        ("LAST_SNAPSHOT", None, None, {}, "new"),
        ("LAST_SNAPSHOT", None, None, {"snapshots": (), "has_snapshot_under_way": True}, None),
        ("LAST_SNAPSHOT", None, None, {"snapshots": CLOCK_BACK}, "after"),
        ("LAST_SNAPSHOT", None, "old", {}, "old"),
        ("LAST_SNAPSHOT", None, "old", {"is_behind": True}, "old"),
        ("PITR", minutes_ago(20), None, {}, "middle"),
        ("PITR", minutes_ago(30), None, {}, "middle"),
        ("PITR", minutes_ago(0), None, {}, "new"),
        ("PITR", minutes_ago(29), None, {"snapshots": CLOCK_BACK}, "after"),
        ("PITR", minutes_ago(31), None, {"snapshots": CLOCK_BACK}, "first"),
        ("PITR", minutes_ago(34), None, {"gaps": [GAP]}, "old"),
        ("PITR", minutes_ago(40), None, {"gaps": [GAP]}, "old"),
        ("PITR", minutes_ago(20), None, {"is_fork": True, "created_at": minutes_ago(10)}, "middle"),
    ],
    ids=[
        "now", "the newest", "none yet", "the newest by the WAL", "a named one", "a named one though a fork has more",
        "the last before the target", "exactly on one", "the present", "behind a step of the clock",
        "before the step of the clock", "behind a gap", "at the edge of a gap", "a fork made while the clock was ahead",
    ],
)  # fmt: skip
def test_the_base_of_a_request(
    strategy: str, target: datetime | None, snapshot_id: str | None, known: dict[str, Any], base: str | None
) -> None:
    point = choose(ForkStrategy(strategy), target, snapshot_id, parent(**known), NOW)
    assert (point.base.id if point.base else None, point.target) == (base, target)
    assert not point.awaits_snapshot


def test_a_snapshot_is_chosen_by_its_id_or_is_the_newest_that_was_taken_by_hand_with_its_name() -> None:
    by_hand = [replace(snapshot(one, 5, lsn, SnapshotKind.MANUAL), name="good") for one, lsn in PAIR]
    known = parent(snapshots=[*by_hand, replace(KNOWN[2], name="good"), replace(KNOWN[0], id="good-1", name="second")])
    for wanted, found in (("good", "second"), ("first", "first"), ("second", "second")):
        point = choose(ForkStrategy.LAST_SNAPSHOT, None, wanted, known, NOW)
        assert point.base is not None
        assert point.base.id == found
    with pytest.raises(Invalid, match="the name 'goud': Did you mean 'good'"):
        choose(ForkStrategy.LAST_SNAPSHOT, None, "goud", known, NOW)
    later = replace(known, names_under_way=["good", "first"])
    with pytest.raises(WrongState, match="The newest snapshot named 'good' is being taken"):
        choose(ForkStrategy.LAST_SNAPSHOT, None, "good", later, NOW)
    point = choose(ForkStrategy.LAST_SNAPSHOT, None, "first", later, NOW)  # an id, which is also somebody's name
    assert point.base is not None
    assert point.base.id == "first"


ROOT = Ancestor("r" * 10, "root", minutes_ago(500), False, False, minutes_ago(400))
ARCHIVED = {"snapshots": (), "archive": ArchiveSpan(minutes_ago(80), minutes_ago(40))}
FORK = {"is_fork": True, "created_at": minutes_ago(70)}


@pytest.mark.parametrize(
    ("strategy", "target", "snapshot_id", "known", "code", "said"),
    [
        ("NOW", None, "old", {}, "SNAPSHOT_NOT_ALLOWED", "got NOW"),
        ("LAST_SNAPSHOT", None, "gone", {}, "SNAPSHOT_NOT_FOUND", "'gone'"),
        ("LAST_SNAPSHOT", None, None, {"snapshots": ()}, "SNAPSHOT_NOT_FOUND", "has no snapshot"),
        ("PITR", minutes_ago(61), None, {}, "OUTSIDE_RESTORE_WINDOW", "reaches from 2026-11-21T11:00:00"),
        ("PITR", minutes_ago(1), None, {"snapshots": ()}, "OUTSIDE_RESTORE_WINDOW", "no restore window yet"),
        ("PITR", minutes_ago(20), None, ARCHIVED, "OUTSIDE_RESTORE_WINDOW", "is after the restore window"),
        ("PITR", minutes_ago(85), None, ARCHIVED, "OUTSIDE_RESTORE_WINDOW", "to 2026-11-21T11:20:00"),
        ("PITR", minutes_ago(38), None, {"gaps": [GAP]}, "OUTSIDE_RESTORE_WINDOW", "is missing"),
        ("PITR", minutes_ago(61), None, {"snapshots": CLOCK_BACK}, "OUTSIDE_RESTORE_WINDOW", "The clock of the"),
        ("PITR", minutes_ago(80), None, FORK | {"ancestors": [ROOT]}, "OUTSIDE_RESTORE_WINDOW", "its ancestor 'root'"),
        ("PITR", minutes_ago(80), None, FORK, "OUTSIDE_RESTORE_WINDOW", "at that time is unknown"),
        ("PITR", minutes_ago(600), None, FORK | {"ancestors": [ROOT]}, "OUTSIDE_RESTORE_WINDOW", "Not even"),
    ],
    ids=[
        "a snapshot as of now", "an unknown snapshot", "no snapshot", "before the window", "no window",
        "after what the archive has", "before what the archive has", "in a gap",
        "before the window of a clock that went back", "before a fork", "before a fork of an unknown service",
        "before all ancestors",
    ],
)  # fmt: skip
def test_a_restore_point_outside_of_what_is_kept_is_refused_with_its_reason(
    strategy: str, target: datetime | None, snapshot_id: str | None, known: dict[str, Any], code: str, said: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        choose(ForkStrategy(strategy), target, snapshot_id, parent(**known), NOW)
    assert refusal.value.code == code
    assert said in f"{refusal.value.message}: {refusal.value.details}"


def test_whoever_asks_for_more_past_than_a_new_service_has_learns_how_long_to_wait() -> None:
    new = parent(snapshots=(snapshot("first", 0.05),))
    with pytest.raises(Invalid, match="is before the restore window") as refusal:
        choose(ForkStrategy.PITR, minutes_ago(0.1), None, new, NOW)
    assert str(refusal.value).endswith("The earliest is 3 s ago: to go back 6 s, wait 3 s.")


def test_the_last_snapshot_is_awaited_when_a_fork_of_now_holds_more() -> None:
    point = choose(ForkStrategy.LAST_SNAPSHOT, None, None, parent(is_behind=True), NOW)
    assert (point.base, point.awaits_snapshot) == (None, True)
