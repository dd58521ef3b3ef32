"""What every backend does with the off-host archive: it says what is there, and forks are made of it alone."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.errors import Failed
from tests.backends.contract.grounds import Ground
from tests.backends.contract.test_restore import after


def archived(ground: Ground, server: Server) -> None:
    """Wait until all that is committed by now is in the archive; a snapshot closes its WAL segment."""
    now = datetime.now(UTC)
    ground.snapshot(server)

    def is_archived() -> bool:
        state = ground.backend.archive.maintain(server, paused=False, timeout_seconds=10)
        return state.problem is None and state.archived_until is not None and state.archived_until > now

    eventually(is_archived, seconds=120)


@pytest.fixture
def archived_parent(ground: Ground) -> Server:
    """A service with a row before its base backup in the archive, and two after it."""
    parent = ground.create("one")
    archived(ground, parent)
    return parent


def test_a_service_that_was_never_archived_has_nothing_in_the_archive(ground: Ground) -> None:
    assert ground.backend.archive.holdings(ground.new_server()).base_backups == []


def test_a_fork_from_the_archive_needs_nothing_of_its_parent(ground: Ground, archived_parent: Server) -> None:
    target = after(ground.client.commit(archived_parent, "two"))
    after(target)
    ground.client.commit(archived_parent, "three")
    archived(ground, archived_parent)
    ground.backend.servers.destroy(archived_parent.service_id)
    (base,) = ground.backend.archive.holdings(archived_parent).base_backups
    assert base.taken_at < target
    to_the_end = Source(archived_parent, base_backup_id=base.id)
    assert ground.client.values(ground.fork(to_the_end)) == ["one", "two", "three"]
    to_a_time = Source(archived_parent, target=target, base_backup_id=base.id)
    assert ground.client.values(ground.fork(to_a_time)) == ["one", "two"]


def test_fetching_and_capturing_may_run_twice(ground: Ground, archived_parent: Server) -> None:
    child, archive, restore = ground.new_server(), ground.backend.archive, ground.backend.restore
    (base,) = archive.holdings(archived_parent).base_backups
    source = Source(archived_parent, base_backup_id=base.id)
    for _ in range(2):
        eventually(lambda: archive.fetch(child, source, 0.5) is None)
    first, second = (restore.capture(child, source) for _ in range(2))
    assert first is not None
    assert first == second
    assert archive.fetch(child, source, 0.5) is None
    assert restore.capture(child, source) == first


def test_a_base_backup_that_has_expired_is_named(ground: Ground, archived_parent: Server) -> None:
    child, source = ground.new_server(), Source(archived_parent, base_backup_id="20200101T000000")

    def fetch() -> bool:
        return ground.backend.archive.fetch(child, source, 0.5) is None

    with pytest.raises(Failed, match="no base backup 20200101T000000"):
        eventually(fetch)


def test_a_server_with_another_id_continues_the_archive_under_its_name(ground: Ground, archived_parent: Server) -> None:
    archive, known = ground.backend.archive, ground.backend.archive.holdings(archived_parent)
    ground.backend.servers.stop(archived_parent)
    other = replace(ground.new_server(), verifier=archived_parent.verifier, archived_as=archived_parent.archive_name)
    ground.backend.upgrades.hand_over(archived_parent.service_id, other.service_id)
    assert archive.holdings(replace(other, archived_as=None)).base_backups == []
    assert [base.id for base in archive.holdings(other).base_backups] == [base.id for base in known.base_backups]
    state = archive.maintain(other, paused=True, timeout_seconds=10)
    assert (state.base_taken_at, state.problem) == (known.base_backups[-1].taken_at, None)
    assert not archive.is_sending(other)
    (base,) = archive.holdings(other).base_backups
    assert ground.client.values(ground.fork(Source(other, base_backup_id=base.id))) == ["one"]
