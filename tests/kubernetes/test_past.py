"""The past of services in the cluster: forks as of exact times, from snapshots and from the archive alone."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import psycopg
import pytest

from ramet.client import ApiError
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from tests.kubernetes.archived import Archived, running_archived
from tests.kubernetes.ramets import Ledger, login, rows

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
_MICROSECOND = timedelta(microseconds=1)


@pytest.fixture(scope="module")
def archived() -> Iterator[Archived]:
    with running_archived() as found:
        yield found


@pytest.mark.parametrize("offset", [timedelta(0), -_MICROSECOND])
def test_a_fork_as_of_a_time_has_exactly_what_was_committed_by_then(archived: Archived, offset: timedelta) -> None:
    archived.ledger.await_rows(100)
    committed = archived.committed()
    chosen = sorted(committed)[-50]
    target = committed[chosen] + offset
    with login(archived.parent, archived.password) as connection:
        connection.execute("CREATE SEQUENCE IF NOT EXISTS later")
        connection.execute("SELECT setval('later', 1000)")
    archived.ledger.await_rows(10)
    fork, password = archived.forked(target)
    expected = [n for n, at in archived.committed().items() if at <= target]
    assert rows(fork, password) == expected
    assert (expected[-1] == chosen) is (offset == timedelta(0))
    report = archived.client.fork_report(fork.service_id)
    assert report.last_included is not None
    assert report.first_excluded is not None
    assert report.last_included.time <= target.isoformat().replace("+00:00", "Z") < report.first_excluded.time
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        login(fork, archived.password)
    archived.remove(fork)


def test_the_restore_window_has_no_gap_and_what_is_too_early_is_refused(archived: Archived) -> None:
    service_id = archived.parent.service_id
    taken = archived.client.take_snapshot(service_id)
    archived.client.wait_snapshot(service_id, taken.id)
    window = archived.client.restore_window(service_id)
    assert window.gaps == []
    early = datetime.fromisoformat(str(window.earliest)) - timedelta(seconds=1)
    with pytest.raises(ApiError) as refused:
        archived.forked(early)
    assert refused.value.code == "OUTSIDE_RESTORE_WINDOW"


def test_a_deleted_service_is_forked_from_the_archive_alone(archived: Archived) -> None:
    client = archived.client
    asked = client.create_service("gone", environment=Environment.PROD)
    assert asked.initial_password is not None
    gone = client.wait_ready(asked.service_id)
    with Ledger(gone, asked.initial_password) as ledger:
        ledger.await_rows(20)
    kept = rows(gone, asked.initial_password)
    archived.await_archived(gone.service_id)
    archived.remove(gone)
    fork = client.fork_service(gone.service_id, ForkStrategy.NOW, from_deleted=True)
    assert fork.initial_password is not None
    assert rows(client.wait_ready(fork.service_id), fork.initial_password) == kept
    archived.remove(fork)
