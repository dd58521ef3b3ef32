"""The WAL of before a restore in place: when it is archived, and what follows where that is not possible."""

import errno
import itertools

import pytest

from ramet.backends.interface.values import Server
from ramet.control.services import delete_service
from ramet.errors import Exhausted, Failed
from ramet.model.service import Service
from ramet.model.status import OperationStatus
from ramet.operations.worker import Worker
from ramet.restores import verbs
from ramet.restores.verbs import RestoreRequest
from tests import procedure_laws as laws
from tests.restores.restoring import now, restore
from tests.worlds import Hurried, World

FULL = Exhausted("NOT_ENOUGH_DISK", "There is not enough disk space")
READ_ONLY = OSError(errno.EROFS, "Read-only file system")


def test_the_wal_of_before_is_archived_when_nothing_is_undone_any_more_and_before_clients_are_let_in(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def end_timeline(server: Server, previous: Server) -> None:
        volumes = [world.backend.volume(each.service_id) for each in (server, previous)]
        found.append((server.service_id, [each.has_data for each in volumes], volumes[0].is_open))

    monkeypatch.setattr(world.backend.replacements, "end_timeline", end_timeline)
    restore(world, shop, RestoreRequest(target_time=now(world)))
    assert found == [(shop.id, [True, True], False)]


@pytest.mark.parametrize("error", [FULL, READ_ONLY])
def test_a_restore_goes_on_when_the_archive_can_be_written_again(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    errors = [error] * 3

    def end_timeline(server: Server, previous: Server) -> None:
        if errors:
            raise errors.pop()

    monkeypatch.setattr(world.backend.replacements, "end_timeline", end_timeline)
    begun = verbs.restore_service(world.plane, world.project.id, shop.id, RestoreRequest(target_time=now(world)))
    Hurried(world.store, world.procedures).run_until_idle(horizon_seconds=20)
    found = verbs.get_restore(world.plane, world.project.id, shop.id, begun.id)
    assert (found.status, errors) == (OperationStatus.SUCCEEDED, [])


@pytest.mark.parametrize("keeps", [True, False])
def test_a_restore_that_fails_at_its_end_archives_the_wal_of_before_while_there_is_that_data(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    attempts, found = itertools.count(1), []

    def end_timeline(server: Server, previous: Server) -> None:
        if next(attempts) < 3:
            raise OSError("cannot be written")
        found.append(world.backend.volume(previous.service_id).has_data)

    monkeypatch.setattr(world.backend.replacements, "end_timeline", end_timeline)
    request = RestoreRequest(target_time=now(world), keeps=keeps)
    begun = verbs.restore_service(world.plane, world.project.id, shop.id, request)
    procedures = laws.rewritten(world.procedures, "restore", lambda one: laws.failing(one, "open", after=False))
    Worker(world.store, procedures).run_until_idle(horizon_seconds=10)
    assert verbs.get_restore(world.plane, world.project.id, shop.id, begun.id).status is OperationStatus.FAILED
    assert found == [True]
    assert world.leftovers() == []


def test_what_is_left_of_a_restore_is_removed_though_the_data_that_the_service_has_now_is_damaged(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def end_timeline(server: Server, previous: Server) -> None:
        raise Failed("CONTROL_FILE_DAMAGED", "The control file is damaged")

    monkeypatch.setattr(world.backend.replacements, "end_timeline", end_timeline)
    found = restore(world, shop, RestoreRequest(target_time=now(world), keeps=False))
    assert found.status is OperationStatus.FAILED
    assert f"service {shop.id} before its restore is not archived: The control file is damaged" in caplog.text
    assert world.leftovers() == []


@pytest.mark.parametrize("error", [FULL, READ_ONLY])
def test_the_wal_of_before_is_given_up_only_when_its_service_is_deleted(
    world: World, shop: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """Where its end is not recorded, a fork of a time after what is archived would lack commits, and not say so."""
    attempts, found = itertools.count(1), []

    def end_timeline(server: Server, previous: Server) -> None:
        if next(attempts) == 60:  # more than it has once the service is being deleted
            found.append(verbs.get_restore(world.plane, world.project.id, shop.id, begun.id).status)
            delete_service(world.plane, world.project.id, shop.id)
        raise error

    monkeypatch.setattr(world.backend.replacements, "end_timeline", end_timeline)
    request = RestoreRequest(target_time=now(world), keeps=False)
    begun = verbs.restore_service(world.plane, world.project.id, shop.id, request)
    Hurried(world.store, world.procedures).run_until_idle(horizon_seconds=20, limit_seconds=60)
    assert found == [OperationStatus.UNDOING]
    assert "free space, or delete the service" in caplog.text
    assert f"service {shop.id} before its restore is not archived: {error}" in caplog.text
    assert set(world.backend.volumes) == set()
