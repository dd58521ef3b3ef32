"""Fork reports, as the control plane puts them together."""

import msgspec
import pytest

from ramet.api.routes.forks import report_shape
from ramet.api.schemas.forks import ArchiveDownload
from ramet.control.fork_reports import fork_report
from ramet.control.requests import ForkRequest
from ramet.errors import NotFound, WrongState
from ramet.model.fork import ForkStrategy
from ramet.model.timestamps import rfc3339
from ramet.store.services import update_service
from tests.worlds import World, fork_service


def test_a_fork_has_a_report_of_its_strategy_target_and_steps(world: World) -> None:
    parent = world.create()
    target = rfc3339(world.backend.commit(parent.id, "row").committed_at)
    fork = world.fork(parent, ForkRequest(ForkStrategy.PITR, target_time=target))
    report = report_shape(fork_report(world.plane, world.project.id, fork.id))
    assert (report.strategy, report.requested_target, report.parent_service_id) == ("PITR", target, parent.id)
    assert report.base.id == fork.origin.snapshot_id if fork.origin else None
    assert [step.step for step in report.steps] == ["capture", "recover", "boot", "secure", "publish"]
    assert report.total_seconds is not None
    assert report.neutralised["neutralize"] is True


def test_the_report_tells_that_statistics_were_collected_after_ready(world: World) -> None:
    fork = world.fork(world.create())
    report = report_shape(fork_report(world.plane, world.project.id, fork.id))
    assert [one.remedy for one in report.not_carried_over if one.what == "cumulative statistics"] == [
        "ANALYZE ran: collected."
    ]


def test_the_report_of_a_fork_that_an_operator_made_from_the_archive_shows_no_download(world: World) -> None:
    fork = world.fork(world.create())
    stored = fork.report or {}
    stored = {**stored, "capture": {**stored["capture"], "archive": {"base_backup": "20260101T000000"}}}
    with world.store.write() as tx:
        update_service(tx, fork.id, report=stored)
    report = report_shape(fork_report(world.plane, world.project.id, fork.id))
    assert report.archive is None
    assert not any("SHA-256" in check for check in report.checks)


def test_the_report_says_what_could_not_be_read_in_the_archive(world: World) -> None:
    fork = world.fork(world.create())
    stored = fork.report or {}
    download = ArchiveDownload("s3://bucket", "20260101T000000", 7, 1.5, "Segment 7 is damaged.")
    stored = {**stored, "capture": {**stored["capture"], "archive": msgspec.to_builtins(download)}}
    with world.store.write() as tx:
        update_service(tx, fork.id, report=stored)
    assert report_shape(fork_report(world.plane, world.project.id, fork.id)).archive == download


def test_the_report_claims_what_the_backend_has_verified_of_the_copy(world: World) -> None:
    parent = world.create()
    target = rfc3339(world.backend.commit(parent.id, "row").committed_at)
    fork = world.fork(parent, ForkRequest(ForkStrategy.PITR, target_time=target))
    stored, cut = fork.report or {}, {"first_excluded": {"xid": 7, "lsn": "0/3000028", "time": target}}
    stored = {**stored, "capture": {**stored["capture"], "checks": ["Its own words."], "cut": cut}}
    with world.store.write() as tx:
        update_service(tx, fork.id, report=stored)
    checks = report_shape(fork_report(world.plane, world.project.id, fork.id)).checks
    assert checks[0] == "Its own words."
    assert not any("Each WAL segment was complete" in check for check in checks)
    assert any("Recovery stopped before" in check for check in checks)


def test_what_is_no_fork_has_no_report(world: World) -> None:
    with pytest.raises(NotFound, match="no fork"):
        fork_report(world.plane, world.project.id, world.create().id)


def test_a_fork_that_is_being_made_has_no_report_yet(world: World) -> None:
    accepted = fork_service(world.plane, world.project.id, world.create().id, ForkRequest(ForkStrategy.NOW))
    with pytest.raises(WrongState, match="READY"):
        fork_report(world.plane, world.project.id, accepted.service.id)
