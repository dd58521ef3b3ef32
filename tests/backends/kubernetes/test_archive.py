"""How far the archive of a serving service is, by what its server says."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ramet.archive import layout
from ramet.archive.backup_info import BackupInfo
from ramet.archive.object_store import open_bucket
from ramet.backends.interface.archive import ArchiveState
from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import archive, base_backups
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.store_access import StoreAccess
from ramet.errors import Failed
from ramet.model.passwords import Secret
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.servers import SHARED

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_SEGMENT = "0000000100000000000000{:02X}"


class Talking:
    """A server that says what a test has written, and counts how often its segment was closed."""

    def __init__(self, backend: KubernetesBackend) -> None:
        self.backend = backend
        self.switches = 0
        self.seconds = 0
        self._said: tuple[Any, ...] = ()

    def execute(self, query: str | bytes, _: object = None) -> "Talking":
        """Answer a query."""
        self.switches += query == "SELECT pg_switch_wal()"
        return self

    def fetchone(self) -> tuple[Any, ...]:
        """Return the answer."""
        return self._said

    def observe(
        self, lsn: str, transactions: str, archived: int, timeline: int = 1, of: Server = SHARED
    ) -> ArchiveState:
        """Let a second pass, and the archive be observed."""
        self.seconds += 1
        name = _SEGMENT.format(archived) if archived else None
        self._said = (self.now, lsn, f"{timeline:08X}{transactions}", name, False, None)
        return self.backend.archive.maintain(of, paused=False, timeout_seconds=1)

    @property
    def now(self) -> datetime:
        """The clock of the server."""
        return BEGAN + timedelta(seconds=self.seconds)


def test_without_an_archive_no_wal_is_kept() -> None:
    with in_cluster() as (_, place):
        found = KubernetesBackend(place).archive
        assert (found.url(), found.is_needed()) == (None, True)


def test_a_server_that_is_down_says_nothing_about_the_archive_of_others(tmp_path: Path) -> None:
    with in_cluster(archive=StoreAccess("s3://bucket/here")) as (found, place):
        place.__dict__["bucket"] = open_bucket(f"file://{tmp_path}")
        backend = KubernetesBackend(place)
        backend.servers.initialize(SHARED)
        found.remove("pods", f"ramet-{SHARED.service_id}-1")
        with pytest.raises(Failed, match="is not running"):
            backend.archive.maintain(SHARED, paused=False, timeout_seconds=1)


def test_pods_get_the_keys_with_which_this_process_began() -> None:
    def access(key: str) -> StoreAccess:
        return StoreAccess("s3://bucket/here", key_id=Secret("id"), key=Secret(key))

    with in_cluster(archive=access("old")) as (found, place):
        KubernetesBackend(place).servers.initialize(SHARED)
        found.remove("pods", f"ramet-{SHARED.service_id}-1")
        later = Place(place.api, replace(place.site, archive=access("new")))
        servers = KubernetesBackend(later).servers
        for refused, key in (({"secrets": 403}, "old"), ({}, "new")):
            found.refused = refused
            servers.maintain(SHARED, 0.1, BEGAN)
            assert found.objects["secrets", "ramet-archive"]["stringData"]["key"] == key
        asked = len(found.requests)
        servers.maintain(SHARED, 0.1, BEGAN)
        assert "PATCH" not in [verb for verb, _ in found.requests[asked:]]
        later.close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Talking]:
    monkeypatch.setattr(archive, "_SWITCH_SECONDS", 0.0)
    with in_cluster(archive=StoreAccess("s3://bucket/here")) as (_, place):
        bucket = place.__dict__["bucket"] = open_bucket(f"file://{tmp_path}")
        info = BackupInfo(
            "20260101T000000", "cloud", 1, 180000, 1, BEGAN, BEGAN, "0/1000028", "0/1000100",
            _SEGMENT.format(1), _SEGMENT.format(1), 9, "",
        )  # fmt: skip
        bucket.write(layout.info_key(SHARED.service_id, info.backup_id), info.dump())
        made = Talking(KubernetesBackend(place))

        @contextmanager
        def connect(_place: Place, _server: object) -> Iterator[Talking]:
            yield made

        monkeypatch.setattr(Place, "connect", connect)
        yield made


def test_the_segment_of_an_idle_service_is_closed_once_for_what_was_committed(server: Talking) -> None:
    assert server.observe("0/3000100", "700:700:", archived=2).archived_until is None
    server.observe("0/3000100", "700:700:", archived=2)
    assert server.switches == 1
    for lsn in ("0/4000028", "0/4000060", "0/4000098", "0/40000D0"):  # what PostgreSQL writes of itself
        assert server.observe(lsn, "700:700:", archived=3).archived_until == server.now
    assert server.switches == 1

    committed = server.now
    for lsn in ("0/4000200", "0/4000238"):
        assert server.observe(lsn, "701:701:", archived=3).archived_until == committed
    assert server.switches == 2


def test_no_segment_is_closed_for_what_waits_in_an_earlier_one(server: Talking) -> None:
    for lsn in ("0/3000100", "0/3000100", "0/4000060", "0/4000098", "0/5000060"):
        assert server.observe(lsn, "700:700:", archived=2).archived_until is None
    assert server.switches == 1


def test_a_crash_that_loses_what_was_archived_does_not_keep_a_commit_waiting(server: Talking) -> None:
    for _ in range(2):
        server.observe("0/3000100", "700:700:", archived=2)
    assert server.switches == 1
    assert server.observe("0/4000100", "700:700:", archived=0).archived_until is None
    assert server.switches == 2
    assert server.observe("0/5000060", "700:700:", archived=4).archived_until == server.now


def test_what_another_primary_has_is_archived_for_itself(server: Talking) -> None:
    server.observe("0/3000028", "700:700:", archived=2)
    assert server.observe("0/3000028", "700:700:", archived=3).archived_until == server.now
    before = server.now
    assert server.observe("0/4000100", "700:700:", archived=3, timeline=2).archived_until == before


@pytest.mark.parametrize("archived_as", [None, "another-name"])
def test_a_process_forgets_the_archive_of_a_service_that_is_gone(
    server: Talking, monkeypatch: pytest.MonkeyPatch, archived_as: str | None
) -> None:
    monkeypatch.setattr(base_backups, "ask_for_one", lambda *_: None)
    gone, kept = replace(SHARED, archived_as=archived_as), replace(SHARED, service_id="keptkept12")
    for one in (gone, kept):
        server.observe("0/3000100", "700:700:", archived=2, of=one)
    for forget in server.backend.place.forgetting:
        forget(gone.service_id)
    known: Any = server.backend.archive
    assert len(known._known) == 1
