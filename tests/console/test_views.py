"""The geometry of timeline and lineage, and the steps of operations."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from ramet.console.views.format import ago_text, seconds_text
from ramet.console.views.forms import InvalidField
from ramet.console.views.life_spans import kept_values, sleep_after_of, terms_of
from ramet.console.views.lineage_tree import renumbered, scale_of, spans_of, tree, with_ancestors
from ramet.console.views.operation_steps import grouped, steps_of
from ramet.console.views.timeline import draw
from ramet.console.views.wal_volume import WalVolume, wal_volume_over_time
from ramet.control.metrics import Growth
from ramet.model import sleep
from ramet.model.environment import Environment
from ramet.model.gaps import Gap
from ramet.model.operation_record import Event, OperationRecord
from ramet.model.passwords import Secret
from ramet.model.restore_window import RestoreSettings, RestoreWindow
from ramet.model.service import Origin, Service
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.status import OperationStatus
from ramet.model.timestamps import rfc3339

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _at(minutes: float) -> datetime:
    return _NOON + timedelta(minutes=minutes)


def _snapshot(minutes: float, lsn: int) -> Snapshot:
    end = f"0/{lsn:X}"
    return Snapshot(f"s{minutes}", "shop000000", SnapshotKind.SCHEDULED, _at(minutes), end, end, 1, lsn, 1)


def _window(*gaps: Gap) -> RestoreWindow:
    return RestoreWindow(_at(0), _at(100), [_snapshot(0, 1000), _snapshot(50, 5000)], gaps, RestoreSettings())


def _service(name: str, minutes: float, origin: Origin | None = None) -> Service:
    return Service(
        id=name.ljust(10, "0"),
        project_id="project000",
        name=name,
        region_code="local",
        service_type=ServiceType.POSTGRES,
        environment=Environment.DEV,
        size=Size(),
        volume_type="memory",
        host="localhost",
        port=1,
        pg_major=15,
        created_at=_at(minutes),
        verifier=Secret(""),
        origin=origin,
    )


def _origin(parent: str, strategy: str, target: str | None = None) -> Origin:
    return Origin("project000", parent.ljust(10, "0"), parent, strategy, target)


def _writes(*growth: Growth) -> list[WalVolume]:
    return wal_volume_over_time(_window().snapshots, growth, 1000, _at(100))


def test_a_timeline_places_snapshots_wal_volume_and_gaps() -> None:
    line = draw(_window(Gap(_at(10), _at(20), "WAL is lost")), _writes(), None)
    assert line is not None
    assert line.snapshots == [0.0, 500.0]
    assert [(bar.x, bar.width, bar.size_bytes) for bar in line.bars] == [(0.0, 500.0, 4000), (500.0, 500.0, 1000)]
    assert line.bars[0].height == 2 * line.bars[1].height
    assert [(gap.x, gap.width) for gap in line.gaps] == [(100.0, 100.0)]
    assert line.has_averages


def test_wal_volume_is_drawn_where_it_was_sampled_and_the_rest_evenly() -> None:
    writes = _writes(Growth(_at(10), _at(20), 3000), Growth(_at(45), _at(55), 500))
    found = [(one.begins_at, one.ends_at, round(one.size_bytes), one.measured) for one in writes]
    assert found == [
        (_at(0), _at(10), 250, False),
        (_at(10), _at(20), 3000, True),
        (_at(20), _at(50), 750, False),
        (_at(50), _at(100), 1000, False),
    ]
    line = draw(_window(), writes, None)
    assert line is not None
    assert max(line.bars, key=lambda bar: bar.height).x == 100.0
    assert [kind for kind, _ in line.paths] == ["even", "measured"]


def test_averages_over_short_periods_count_as_measured() -> None:
    seconds = [replace(_snapshot(0, lsn), taken_at=_at(lsn / 600)) for lsn in range(0, 601, 60)]
    short = RestoreWindow(_at(0), _at(1), seconds, (), RestoreSettings())
    line = draw(short, wal_volume_over_time(seconds, [Growth(_at(0.1), _at(0.6), 9)], 0, _at(1)), None)
    assert line is not None
    assert {(bar.size_bytes, bar.measured) for bar in line.bars} == {(60, True)}
    assert not line.has_averages


def test_a_fully_sampled_window_has_no_averages() -> None:
    line = draw(_window(), _writes(*(Growth(_at(n), _at(n + 1), 100) for n in range(100))), None)
    assert line is not None
    assert not line.has_averages
    assert sum(bar.size_bytes for bar in line.bars) == 10_000


def test_many_samples_are_merged_into_few_bars() -> None:
    growth = [Growth(_at(n / 100), _at((n + 1) / 100), n % 7) for n in range(10_000)]
    line = draw(_window(), _writes(*growth), None)
    assert line is not None
    assert len(line.bars) <= 251
    assert all(bar.width >= 4 for bar in line.bars[:-1])
    assert sum(bar.size_bytes for bar in line.bars) == sum(one.size_bytes for one in growth)
    assert sum(len(path) for _, path in line.paths) < 10_000


def test_a_part_of_a_timeline_ends_with_the_window() -> None:
    line = draw(_window(), [], 600)
    assert line is not None
    assert (line.earliest, line.latest) == (_at(90), _at(100))
    assert line.snapshots == []
    assert line.first_milli == int(_at(90).timestamp() * 1000) + 1


def test_an_empty_window_has_no_timeline() -> None:
    assert draw(replace(_window(), earliest=None, latest=None), [], None) is None


def test_a_tree_has_forks_below_their_parents_with_the_time_of_their_data() -> None:
    listed = [
        _service("shop", 0),
        _service("blog", 10),
        _service("fork", 50, _origin("shop", "PITR", rfc3339(_at(20)))),
        _service("fork2", 60, _origin("fork", "NOW")),
    ]
    nodes = tree(listed, scale_of(listed, _at(100), None))
    assert [(node.name, node.depth, node.parent_row) for node in nodes] == [
        ("shop", 0, None),
        ("fork", 1, 0),
        ("fork2", 2, 1),
        ("blog", 0, None),
    ]
    assert nodes[0].x_created < nodes[3].x_created < (nodes[1].x_data or 0) < nodes[1].x_created
    assert nodes[2].x_data == nodes[2].x_created


def test_a_deleted_parent_keeps_its_place() -> None:
    listed = [_service("one", 0, _origin("gone", "NOW")), _service("two", 1, _origin("gone", "NOW"))]
    nodes = tree(listed, scale_of(listed, _at(2), None))
    assert [(node.name, node.service is None, node.depth) for node in nodes] == [
        ("gone", True, 0),
        ("one", False, 1),
        ("two", False, 1),
    ]


def test_a_chain_of_a_thousand_forks_is_drawn() -> None:
    listed = [_service("f0000", 0)]
    listed += [_service(f"f{n:04d}", n, _origin(f"f{n - 1:04d}", "NOW")) for n in range(1, 1000)]
    assert [node.depth for node in tree(listed, scale_of(listed, _at(1000), None))] == list(range(1000))


def test_the_last_part_of_a_lineage_has_what_is_older_at_its_left_edge() -> None:
    listed = [_service("shop", 0), _service("fork", 110, _origin("shop", "PITR", rfc3339(_at(20))))]
    whole = scale_of(listed, _at(120), None)
    assert (whole.earliest, whole.latest) == (_at(0), _at(120))
    assert [seconds for seconds, _ in spans_of(whole, None)] == [None, 3600]
    assert [seconds for seconds, _ in spans_of(whole, 86_400)] == [None, 86_400, 3600]
    shop, fork = tree(listed, scale_of(listed, _at(120), 3600))
    assert (shop.x_created, fork.x_data, fork.shows_data) == (1.5, 1.5, False)
    assert 80 < fork.x_created < 90
    assert tree(listed, whole)[1].shows_data


def test_search_results_in_the_lineage_keep_their_ancestors() -> None:
    listed = [
        _service("shop", 0),
        _service("blog", 10),
        _service("fork", 50, _origin("shop", "NOW")),
        _service("fork2", 60, _origin("fork", "NOW")),
        _service("fork3", 70, _origin("gone", "NOW")),
    ]
    assert [one.name for one in with_ancestors(listed, [listed[3]])] == ["shop", "fork", "fork2"]
    assert [one.name for one in with_ancestors(listed, [listed[4], listed[1]])] == ["blog", "fork3"]
    assert with_ancestors(listed, []) == []


def test_a_page_of_a_tree_counts_its_rows_from_zero() -> None:
    listed = [_service("root", 0)] + [_service(f"f{n:04d}", n, _origin("root", "NOW")) for n in range(1, 150)]
    nodes = tree(listed, scale_of(listed, _at(1000), None))
    assert [node.parent_row for node in renumbered(nodes[:100])] == [None] + [0] * 99
    rest = renumbered(nodes[100:])
    assert [(node.row, node.parent_row) for node in rest] == [(n, None) for n in range(50)]


def _past(status: OperationStatus, step: str, *events: Event) -> OperationRecord:
    return OperationRecord("op", "s", "shop", "fork", status, step, "redo 0/5", None, _at(0), None, events)


def test_steps_are_done_active_waiting_undone_or_failed() -> None:
    done = Event("op", "capture", "DONE", _at(0), 0.2)
    states = [step.state for step in steps_of(_past(OperationStatus.RUNNING, "recover", done))]
    assert states == ["done", "active", "waiting", "waiting", "waiting"]
    lost = Event("op", "recover", "ABANDONED", _at(0), 0.2, "The disk is full.")
    undone = Event("op", "capture", "UNDONE", _at(0), 0.2)
    failed = steps_of(_past(OperationStatus.FAILED, "capture", done, lost, undone))
    assert [(step.state, step.note) for step in failed[:2]] == [("undone", ""), ("failed", "The disk is full.")]


def test_consecutive_successful_operations_of_a_kind_are_grouped() -> None:
    went, failed = _past(OperationStatus.SUCCEEDED, "publish"), _past(OperationStatus.FAILED, "recover")
    other = replace(went, procedure="snapshot")
    listed = [went, went, other, went, failed, failed, went]
    assert grouped(listed, 9) == [(went, 1), (other, 0), (went, 0), (failed, 0), (failed, 0), (went, 0)]
    assert grouped(listed, 2) == [(went, 1), (other, 0)]


def test_durations_are_rounded_before_they_are_divided() -> None:
    found = [seconds_text(seconds) for seconds in (0.4, 0.9996, 1, 59.94, 59.96, 119.7, 3599.4, 3599.6, 5400)]
    assert found == ["400 ms", "1.0 s", "1.0 s", "59.9 s", "1 min 0 s", "2 min 0 s", "59 min 59 s", "1.0 h", "1.5 h"]


def test_every_time_after_which_a_service_can_fall_asleep_can_be_entered() -> None:
    for seconds in (*range(sleep.LEAST_SECONDS, 200), 12_345, sleep.MOST_SECONDS):
        shown = kept_values(structs.replace(_service("shop", 0), sleep_after_seconds=seconds))
        assert sleep_after_of(shown) == seconds
    with pytest.raises(InvalidField, match=r"from 0\.0014 to 720 \(got 0\.001\)"):
        sleep_after_of({"sleep_after": "0.001"})
    with pytest.raises(InvalidField, match=r"from 0\.0167 to"):
        terms_of({"ttl": "0.0014"})


def test_ago_uses_whole_units() -> None:
    found = [ago_text(seconds) for seconds in (-1, 0, 59.9, 60, 3599, 3600, 86_399, 86_400, 900_000)]
    assert found == [
        "0 s ago",
        "0 s ago",
        "59 s ago",
        "1 min ago",
        "59 min ago",
        "1 h ago",
        "23 h ago",
        "1 d ago",
        "10 d ago",
    ]
