"""What servers say of themselves: one program in the pod for all who want to know."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ramet.backends.interface.values import SnapshotFacts
from ramet.backends.kubernetes import reports
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.store_access import StoreAccess
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql.read_only_roles import ReadOnlyRoles
from ramet.errors import Unavailable
from ramet.model.metrics import key_of
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster
from tests.backends.kubernetes.servers import SHARED, report

MADE = tuple[FakeCluster, KubernetesBackend]
SNAPSHOT = SnapshotFacts(datetime(2026, 1, 1, tzinfo=UTC), "0/2000000", "0/2000028", 1, 790, 1)


@pytest.fixture
def made() -> Iterator[MADE]:
    with in_cluster(archive=StoreAccess("s3://bucket")) as (found, place):
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        yield found, backend


def says(found: FakeCluster, **facts: Any) -> None:
    found.answer = lambda pod, command, stdin: (report(**facts), "", 0)


def asked(found: FakeCluster) -> int:
    """Return how many programs were run in pods since the last call."""
    taken = list(found.requests)
    del found.requests[: len(taken)]
    return sum(path.endswith("/exec") for _, path in taken)


def test_one_program_answers_measurements_and_maintenance(made: MADE) -> None:
    found, backend = made
    says(found, unarchived="00000001000000000000000A")
    measured = backend.host.measure(SHARED)
    assert measured is not None
    assert measured[key_of("ramet_cpu_seconds_total")] == 2.5
    assert measured[key_of("ramet_connections", state="idle")] == 2
    assert measured[key_of("ramet_wal_bytes_total")] == 8
    delay = backend.servers.maintain(SHARED, 0.1, datetime.now(UTC)).archive_delay
    assert delay is not None
    assert "00000001000000000000000A is not archived" in delay
    assert asked(found) == 1


def test_what_was_written_since_a_snapshot_is_that_of_now(made: MADE) -> None:
    found, backend = made
    for next_xid, written in ((790, 0), (791, 0x3000000 - 0x2000028)):
        says(found, next_xid=next_xid)
        assert backend.restore.written_since(SHARED, SNAPSHOT) == written
    assert backend.host.measure(SHARED) is not None
    assert asked(found) == 2


def test_only_servers_with_read_only_roles_are_connected_to(made: MADE, monkeypatch: pytest.MonkeyPatch) -> None:
    found, backend = made
    enforced: list[str] = []
    monkeypatch.setattr(type(backend.servers.read_only_roles), "enforce", lambda _, paths: enforced.append(str(paths)))
    for marked in (False, True):
        says(found, marked=marked)
        backend.servers.maintain(SHARED, 0.1, datetime.now(UTC))
        assert len(enforced) == marked
        monkeypatch.setattr(reports, "monotonic", lambda: 1e9)


def test_what_a_check_of_read_only_roles_left_is_continued_before_the_next_report(
    made: MADE, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, backend = made
    wal_written: list[int] = []

    def enforce(_: ReadOnlyRoles, paths: ServicePaths) -> None:
        wal_written.append((paths.data / "pg_wal" / "looked").stat().st_mtime_ns)

    monkeypatch.setattr(ReadOnlyRoles, "enforce", enforce)
    says(found, marked=True)
    for _ in range(2):
        backend.servers.maintain(SHARED, 0.1, datetime.now(UTC))
    assert (len(wal_written), len(set(wal_written))) == (2, 1)


def test_what_a_pod_prints_instead_of_a_report_is_said(made: MADE) -> None:
    found, backend = made
    found.answer = lambda pod, command, stdin: ("cat: memory.current: No such file or directory\n", "", 0)
    with pytest.raises(Unavailable, match="did not say") as unreadable:
        backend.place.reports.of(SHARED.service_id, 0)
    assert "memory.current" in unreadable.value.details
    assert backend.host.measure(SHARED) is None
    assert backend.restore.written_since(SHARED, SNAPSHOT) is None
