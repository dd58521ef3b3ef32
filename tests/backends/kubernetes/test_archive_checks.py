"""Archived WAL is read back: what is damaged shows, whichever process has read it."""

import gzip
from functools import partial

import pytest

from harness.waiting import eventually
from ramet.archive import layout
from ramet.archive.wal import WalArchive
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.cluster import Place
from tests.backends.kubernetes.past_world import World
from tests.backends.kubernetes.servers import SHARED


def test_each_process_reports_damaged_wal_until_a_round_of_checks_by_any_finds_none(world: World) -> None:
    place, key = world.backend.place, layout.wal_key(SHARED.service_id, "000000010000000000000002")
    other = Place(place.api, place.site)
    other.__dict__["bucket"] = world.bucket
    archives = [world.backend.archive, KubernetesBackend(other).archive]

    def all_report(is_damaged: bool) -> bool:
        found = [one.maintain(SHARED, paused=True, timeout_seconds=1).problem or "" for one in archives]
        return all(("000000010000000000000002" in one and "damaged" in one) is is_damaged for one in found)

    for checks, content, is_damaged in ((0, b"no gzip", True), (1, gzip.compress(b"whole"), False)):
        world.bucket.write(key, content)
        while archives[checks].check(SHARED, 1):
            pass
        eventually(partial(all_report, is_damaged))
    world.bucket.write(key, b"no gzip")
    assert archives[0].check(SHARED, 1) > 0
    assert archives[1].check(SHARED, 1) == 0, "it goes on where the other one has ended"
    eventually(partial(all_report, True))
    archives[0].remove(SHARED)
    eventually(partial(all_report, False))
    other.clusters.stop()


def test_wal_that_is_discarded_while_it_is_checked_is_no_problem(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = WalArchive.sizes

    def discarded_then(wal: WalArchive, after: str | None = None) -> dict[str, int]:
        found = sizes(wal, after)
        wal.bucket.delete([layout.wal_key(wal.server, name) for name in found])
        return found

    monkeypatch.setattr(WalArchive, "sizes", discarded_then)
    archive, key = world.backend.archive, layout.wal_key(SHARED.service_id, "000000010000000000000002")
    world.bucket.write(key, gzip.compress(b"whole"))
    assert archive.check(SHARED, 1 << 40) > 0
    problem = archive.maintain(SHARED, paused=True, timeout_seconds=1).problem or ""
    assert " lacks " not in problem
