"""What every backend must do when data gets another major version."""

from dataclasses import replace

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.model.upgrade import Survey
from tests.backends.contract.grounds import Ground


def surveyed(ground: Ground, server: Server) -> Survey:
    found: list[Survey | None] = []

    def is_over() -> bool:
        found.append(ground.backend.upgrades.survey(server, [], 0.5))
        return found[-1] is not None

    eventually(is_over)
    assert found[-1] is not None
    return found[-1]


def test_the_data_of_a_fork_gets_another_version_and_every_step_may_run_twice(ground: Ground) -> None:
    parent, upgrades = ground.create("one", "two"), ground.backend.upgrades
    newest = max(upgrades.majors())
    facts = upgrades.examine(parent, newest)
    assert facts.refusals == ()
    assert facts.to_version.startswith(f"{newest}.")
    child = ground.new_server()
    captured = ground.backend.restore.capture(child, Source(parent))
    assert captured is not None
    eventually(lambda: ground.backend.restore.recover(child, captured, 0.5).facts is not None)
    ground.boot(child, first=True)
    before = surveyed(ground, child)
    assert sum(before.rows.values()) >= 2
    for _ in range(2):
        upgrades.prepare(child)
    ground.backend.servers.stop(child)
    newer = replace(child, pg_major=newest)
    for _ in range(2):
        eventually(lambda: upgrades.upgrade(newer, parent.pg_major, 0.5).facts is not None)
    ground.boot(newer, first=True)
    for _ in range(2):
        assert upgrades.complete(newer, parent.pg_major) == []
    assert surveyed(ground, newer) == before
    assert ground.client.values(parent) == ["one", "two"]


def test_all_that_a_service_has_passes_to_another_id_once(ground: Ground) -> None:
    server, upgrades = ground.create("one"), ground.backend.upgrades
    snapshot_id, _facts = ground.snapshot(server)
    ground.backend.servers.stop(server)
    other = replace(ground.new_server(), verifier=server.verifier)
    ground.passwords[other.service_id] = ground.passwords[server.service_id]
    for _ in range(2):
        upgrades.hand_over(server.service_id, other.service_id)
    assert ground.backend.restore.snapshot_ids(server.service_id) is None
    assert ground.backend.restore.snapshot_ids(other.service_id) == frozenset({snapshot_id})
    ground.boot(other)
    ground.backend.servers.open(other)
    assert ground.client.values(other) == ["one"]
