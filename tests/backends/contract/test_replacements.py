"""What every backend must do when the data of a service is replaced at its own endpoint."""

from dataclasses import replace

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.ids import new_id
from ramet.model.passwords import new_password, scram_verifier
from tests.backends.contract.grounds import Ground


@pytest.fixture
def service(ground: Ground) -> Server:
    """A service with a row."""
    return ground.create("one")


def prepared(ground: Ground, service: Server, source: Source) -> tuple[Server, str]:
    """Make a copy that can take the service over, each step twice; return it and its snapshot."""
    copy, replacements = replace(ground.new_server(), port=0), ground.backend.replacements
    captured = ground.backend.restore.capture(copy, source)
    assert captured is not None
    for _ in range(2):
        captured = replacements.reserve_timeline(copy, service.service_id, captured)
    eventually(lambda: ground.backend.restore.recover(copy, captured, 0.5).facts is not None)
    for _ in range(2):
        eventually(lambda: replacements.leave_timeline(copy, service.service_id, 0.5) is None)
    ground.boot(copy, first=True)
    for _ in range(2):
        replacements.secure(copy, rotate=False, neutralize=False)
    for _ in range(2):
        replacements.close(copy)
    snapshot_id = new_id()
    assert ground.backend.restore.take_snapshot(copy, snapshot_id, True) is not None
    return copy, snapshot_id


def exchange(ground: Ground, service: Server, copy: Server, snapshot_id: str) -> Server:
    """Let the copy take the service over, each step twice; return the server that has the state before."""
    replacements, previous = ground.backend.replacements, ground.new_server()
    ground.passwords[previous.service_id] = ground.passwords[service.service_id]
    replacements.flush(service)
    for _ in range(2):
        replacements.release(service, copy)
    for _ in range(2):
        replacements.move_data(service, previous)
    for _ in range(2):
        replacements.move_data(copy, service, [snapshot_id])
    ground.boot(service)
    for _ in range(2):
        replacements.adopt(service, copy)
    for _ in range(2):
        replacements.end_timeline(service, previous)
    for _ in range(2):
        replacements.open(service)
    return previous


def test_a_copy_takes_over_endpoint_and_passwords_and_the_state_before_remains(ground: Ground, service: Server) -> None:
    ground.backend.replacements.check()
    kept, facts = ground.snapshot(service)
    ground.client.commit(service, "two")
    copy, snapshot_id = prepared(ground, service, Source(service, snapshot_id=kept))
    previous = exchange(ground, service, copy, snapshot_id)
    assert ground.client.values(service) == ["one"]
    assert ground.backend.servers.has_password(service, ground.passwords[service.service_id])
    assert ground.backend.restore.snapshot_ids(service.service_id) == frozenset({kept, snapshot_id})
    assert facts.timeline < facts_of_next(ground, service)
    ground.boot(previous)
    ground.backend.replacements.open(previous)
    assert ground.client.values(previous) == ["one", "two"]
    ground.backend.servers.destroy(copy.service_id)
    assert ground.client.values(service) == ["one"]


def facts_of_next(ground: Ground, service: Server) -> int:
    """Return the timeline of a new snapshot."""
    return ground.snapshot(service)[1].timeline


def test_the_password_of_now_is_carried_over_also_of_a_server_that_is_stopped_already(
    ground: Ground, service: Server
) -> None:
    copy, snapshot_id = prepared(ground, service, Source(service))
    password = new_password()
    ground.backend.servers.set_password(service, scram_verifier(password))
    ground.backend.servers.stop(service)
    exchange(ground, service, copy, snapshot_id)
    assert ground.backend.servers.has_password(service, password)


def test_times_before_and_after_the_exchange_can_be_restored(ground: Ground, service: Server) -> None:
    kept, _facts = ground.snapshot(service)
    before = ground.client.commit(service, "two")
    copy, snapshot_id = prepared(ground, service, Source(service, snapshot_id=kept))
    exchange(ground, service, copy, snapshot_id)
    after = ground.client.commit(service, "three")
    ground.client.commit(service, "four")
    wanted = [(kept, before, ["one", "two"]), (snapshot_id, after, ["one", "three"])]
    for base, target, values in wanted:
        fork = ground.fork(Source(service, snapshot_id=base, target=target))
        assert ground.client.values(fork) == values


def test_an_exchange_is_undone_before_anybody_is_let_in(ground: Ground, service: Server) -> None:
    copy, snapshot_id = prepared(ground, service, Source(service))
    replacements, previous = ground.backend.replacements, ground.new_server()
    ground.client.commit(service, "two")
    replacements.release(service, copy)
    replacements.move_data(service, previous)
    replacements.move_data(copy, service, [snapshot_id])
    for _ in range(2):
        replacements.close(service)
        replacements.move_data(service, copy, [snapshot_id])
        replacements.move_data(previous, service)
    ground.boot(service)
    replacements.open(service)
    assert ground.client.values(service) == ["one", "two"]
    assert snapshot_id not in (ground.backend.restore.snapshot_ids(service.service_id) or ())
