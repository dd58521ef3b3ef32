"""Fork reports in sentences, for forks of several kinds."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace as with_changes

from ramet.console.views.fork_report import report_view
from ramet.control.fork_reports import ForkReport, fork_report
from ramet.control.requests import ForkRequest
from ramet.model.fork import ForkStrategy
from ramet.model.fork_report import fork_facts
from ramet.model.timestamps import rfc3339
from tests.console.visitor import Visitor
from tests.worlds import make_world

_LAST = {"xid": 745, "lsn": "0/3000100", "time": "2026-01-01T10:29:59.900000Z"}
_FIRST = {"xid": 746, "lsn": "0/3000200", "time": "2026-01-01T10:30:00.000001Z"}
_CAPTURE = {
    "base_time": "2026-01-01T10:20:00.000000Z",
    "start_lsn": "0/2000028",
    "size_bytes": 31_000_000,
    "cut": {"last_included": _LAST, "first_excluded": _FIRST, "behind_with_earlier_time": [747, 748]},
}


def _report(tmp_path: Path, request: ForkRequest, **facts: Any) -> ForkReport:
    world = make_world(tmp_path)
    fork = world.fork(world.create(), request)
    report = fork_report(world.plane, world.project.id, fork.id)
    world.store.close()
    made = with_changes(fork, ready_at=fork.created_at + timedelta(seconds=0.25))
    return replace(report, service=made, facts=fork_facts({**(fork.report or {}), **facts}))


def test_a_point_in_time_report_names_the_last_transaction_included_and_the_first_left_out(tmp_path: Path) -> None:
    recovery = {"wal_replayed_bytes": 2_000_000}
    report = _report(tmp_path, ForkRequest(ForkStrategy.NOW), capture=_CAPTURE, recovery=recovery)
    origin = with_changes(report.origin, strategy="PITR", target_time="2026-01-01T12:30:00+02:00")
    view = report_view(replace(report, origin=origin, step_seconds={"capture": 0.05, "recover": 0.1}))
    assert view.restore_point == "Everything committed at or before 2026-01-01T10:30:00.000000Z."
    holds = dict(view.contents)
    assert holds["Last transaction included"] == "745, committed 2026-01-01T10:29:59.900000Z, at 0/3000100"
    assert holds["First transaction left out"].startswith("746, committed 2026-01-01T10:30:00.000001Z")
    assert holds["Also left out"].startswith("2 transactions with an earlier commit time")
    assert holds["Base"] == "a copy taken 2026-01-01T10:20:00.000000Z, 31 MB"
    assert holds["Replayed"].startswith("2.0 MB of WAL, from 0/2000028")
    assert [(one.title, one.begin, one.width) for one in view.shares] == [
        ("Copy the parent's data", 0.0, 20.0),
        ("Recover to the restore point", 20.0, 40.0),
        ("Between steps", 60.0, 40.0),
    ]
    assert view.total_seconds == 0.25
    assert any("2026-01-01T10:30:00.000000Z" in check for check in view.checks)


def test_a_point_in_time_report_says_when_no_commit_was_replayed(tmp_path: Path) -> None:
    cut = {"last_included": None, "first_excluded": _FIRST}
    recovery = {"first_excluded_time": _FIRST["time"], "last_commit_time": None, "timeline": 2}
    report = _report(tmp_path, ForkRequest(ForkStrategy.NOW), capture={"cut": cut}, recovery=recovery)
    origin = with_changes(report.origin, strategy="PITR", target_time="2026-01-01T10:30:00Z")
    checks = report_view(replace(report, origin=origin)).checks
    assert not any("None" in check for check in checks)
    assert any("No commit was replayed" in check for check in checks)


def test_a_report_leaves_out_empty_facts(tmp_path: Path) -> None:
    nothing = {"prepared_transactions": [], "subscriptions": [], "jobs": [], "user_mappings": 0, "roles_rotated": 1}
    cut: dict[str, Any] = {"last_included": None, "first_excluded": None, "behind_with_earlier_time": []}
    view = report_view(_report(tmp_path, ForkRequest(ForkStrategy.NOW), neutralised=nothing, capture={"cut": cut}))
    assert [name for name, _ in view.contents] == ["First transaction left out"]
    assert [name for name, _ in view.neutralized] == ["Passwords"]
    assert "1 login role replaced" in dict(view.neutralized)["Passwords"]


def test_a_report_lists_what_was_neutralized(tmp_path: Path) -> None:
    found = {
        "prepared_transactions": ["tsdb: two"],
        "prepared_transactions_rolled_back": 1,
        "subscriptions": ["tsdb.orders"],
        "jobs": ["tsdb: pg_cron job 1"],
        "user_mappings": 2,
        "databases_not_entered": [f"d{number}" for number in range(25)],
    }
    reported = dict(report_view(_report(tmp_path, ForkRequest(ForkStrategy.NOW), neutralised=found)).neutralized)
    assert reported["Prepared transactions"] == "tsdb: two: rolled back"
    assert reported["Foreign servers"] == "2 user mappings emptied"
    assert "d19 and 5 more" in reported["Not entered"]
    assert {"Subscriptions", "Scheduled jobs"} <= reported.keys()


def test_a_report_gives_the_time_of_the_snapshot_or_of_the_request(tmp_path: Path) -> None:
    report = _report(tmp_path, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    assert report.base is not None
    assert report_view(report).restore_point == f"The snapshot taken {rfc3339(report.base.taken_at)}."
    reported = report_view(replace(report, origin=with_changes(report.origin, strategy="NOW"))).restore_point
    assert rfc3339(report.service.created_at) in reported


def test_only_forks_have_a_report_page(visitor: Visitor) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    visitor.send(f"/console/services/{shop.id}/fork", strategy="NOW", name="copy", environment="DEV")
    fork = visitor.settled("copy")
    page = visitor.see(f"/console/services/{fork.id}/report")
    assert "READY after" in page
    assert f'href="/console/services/{fork.id}/report"' in visitor.see(f"/console/services/{fork.id}")
    assert "is not a fork" in visitor.see(f"/console/services/{shop.id}/report", 404)
