"""A service whose object store is away while its disk fills, and the secrets of the archive."""

import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness.faulty_store import FaultyStore, faulty_store
from harness.instance import Instance, connect, open_instance
from harness.object_stores import ObjectStore, object_store
from harness.waiting import eventually
from ramet.archive.object_store import open_bucket
from ramet.archive.wal import WalArchive
from ramet.backends.local.off_host.shipping import switch_segment
from ramet.backends.local.wal.segment import Segment, segment_named
from tests.crash.test_secrets import world_readable
from tests.crash.test_space import Shop, fill_up, shown, status

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.root]
SECRET = "archive/secret+7f3a9c51d2"
_SMALL = {"RAMET_IMAGE_GBS": "2", "RAMET_STORAGE_DRIVER": "reflink", "RAMET_SNAPSHOT_SECONDS": "3600"}
# Ramet, which waits for a store for seconds and not for minutes.
_IMPATIENT = """
from datetime import timedelta
from ramet.__main__ import main
from ramet.archive import object_store
for client in (object_store._CLIENT, object_store._LISTING_CLIENT):
    client["timeout"] = "3s"
for retries in (object_store._RETRIES, object_store._LISTING_RETRIES):
    retries["retry_timeout"] = timedelta(seconds=2)
main()
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store("moto", tmp_path_factory.mktemp("objects")) as made:
        yield made


@pytest.fixture(scope="module")
def proxy(store: ObjectStore) -> Iterator[FaultyStore]:
    with faulty_store(store.endpoint) as made:
        yield made


@pytest.fixture(scope="module")
def archiving(store: ObjectStore, proxy: FaultyStore) -> Iterator[Instance]:
    archive = {**store.environment(proxy.url), "RAMET_ARCHIVE_URL": store.url, "AWS_SECRET_ACCESS_KEY": SECRET}
    with open_instance(None, **_SMALL, **archive) as made:
        made.program = (sys.executable, "-c", _IMPATIENT)
        made.up()
        yield made


@pytest.fixture(scope="module")
def shop(archiving: Instance) -> Shop:
    answer = archiving.call("POST", "/services", {"name": "shop", "environment_tag": "PROD"}).json()
    made = Shop(archiving, answer["service_id"], answer["endpoint"]["port"], answer["initial_password"])
    eventually(lambda: status(archiving, made.id) == "READY", lambda: str(shown(archiving, made.id)))
    archiving.ask("PUT", f"/services/{made.id}/archive", {"enabled": True})
    with connect(made.port, made.password) as connection:
        connection.execute("CREATE TABLE ledger (n bigint, filling text)")
        connection.execute("ALTER TABLE ledger ALTER filling SET STORAGE external")
    eventually(lambda: archived_until(made) is not None, "the first base backup")
    return made


def archive_of(shop: Shop) -> dict[str, Any]:
    found: dict[str, Any] = shop.instance.ask("GET", f"/services/{shop.id}/archive")
    return found


def archived_until(shop: Shop) -> datetime | None:
    until = archive_of(shop)["archived_until"]
    return None if until is None else datetime.fromisoformat(until)


def close_segment(shop: Shop) -> None:
    """Let there be something to send now, and not when the segment is full or a minute old."""
    with connect(shop.port, shop.password) as connection:
        connection.execute("SELECT pg_logical_emit_message(true, 'something', 'to send')")
    switch_segment(shop.instance.backend.instances.paths(shop.id))


@contextmanager
def filled(pool: Path, left_mib: int) -> Iterator[None]:
    """Take all room but some MiB."""
    path = pool / "ballast"
    fill_up(path, left_mib)
    try:
        yield
    finally:
        path.unlink()


def commit_until_refused(shop: Shop) -> list[int]:
    """Commit rows until the service refuses them; return those that were acknowledged."""
    acknowledged = []
    with suppress(psycopg.Error), connect(shop.port, shop.password) as connection:
        for number in itertools.count(1):
            connection.execute("INSERT INTO ledger VALUES (%s, repeat('x', 4000000))", (number,))
            acknowledged.append(number)
    return acknowledged


def test_a_disk_that_fills_while_the_store_is_away_loses_no_commit_and_is_caught_up_with(
    shop: Shop, proxy: FaultyStore, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = shop.rows()
    with proxy.refusing(503, "SlowDown"):
        close_segment(shop)
        eventually(lambda: "does not answer" in (archive_of(shop)["problem"] or ""))
        before = archived_until(shop)
        with filled(shop.instance.backend.pool.path, 500):
            acknowledged = commit_until_refused(shop)
            eventually(lambda: shown(shop.instance, shop.id)["metadata"].get("storage_warning") is not None)
            assert acknowledged != []
            assert shop.rows() == sorted([*kept, *acknowledged])
            assert archived_until(shop) == before
        eventually(lambda: "storage_warning" not in shown(shop.instance, shop.id)["metadata"])
        with connect(shop.port, shop.password) as connection:
            connection.execute("INSERT INTO ledger VALUES (0, 'after')")
        committed = datetime.now(UTC)
        close_segment(shop)
    eventually(lambda: (archived_until(shop) or committed) > committed, lambda: str(archive_of(shop)))
    eventually(lambda: archive_of(shop)["problem"] is None, lambda: str(archive_of(shop)))
    assert f"service {shop.id}: the off-host archive has caught up" in shop.instance.log
    assert shop.rows() == sorted([*kept, 0, *acknowledged])
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    sent = sorted(filter(None, map(segment_named, WalArchive(open_bucket(store.url), shop.id).names())))
    assert sent == [Segment(sent[0].timeline, sent[0].number + passed) for passed in range(len(sent))]
    assert len(sent) > len(acknowledged) * 4_000_000 // (16 * 1024**2)


def test_a_store_that_never_answers_holds_up_nothing_and_is_caught_up_with(shop: Shop, proxy: FaultyStore) -> None:
    with proxy.stalled():
        close_segment(shop)
        eventually(lambda: "does not answer" in (archive_of(shop)["problem"] or ""), lambda: str(archive_of(shop)))
        with connect(shop.port, shop.password) as connection:
            connection.execute("INSERT INTO ledger VALUES (-1, 'while the store does not answer')")
        committed = datetime.now(UTC)
        close_segment(shop)
        until = archived_until(shop)
        assert until is not None
        assert until < committed
        shop.fork()
        assert "does not answer" in shown(shop.instance, shop.id)["metadata"]["archive_warning"]
    eventually(lambda: (archived_until(shop) or committed) > committed, lambda: str(archive_of(shop)))
    eventually(lambda: archive_of(shop)["problem"] is None, lambda: str(archive_of(shop)))


def test_the_secret_of_the_archive_is_nowhere_but_in_the_environment_of_ramet(shop: Shop, proxy: FaultyStore) -> None:
    with proxy.refusing(403, "SignatureDoesNotMatch"):
        close_segment(shop)
        eventually(lambda: "refuses the credentials (SignatureDoesNotMatch)" in (archive_of(shop)["problem"] or ""))
    shop.fork()
    shop.instance.await_idle()
    process = shop.instance.process
    assert process is not None
    needle, found = SECRET.encode(), list[str]()
    for path in _places(shop.instance, (Path("/proc") / str(process.pid) / "exe").readlink()):
        with suppress(OSError):
            if needle in path.read_bytes():
                found.append(str(path))
    found += [str(path) for path, content in shop.instance.store_files().items() if needle in content]
    assert needle not in shop.instance.call("GET", f"/services/{shop.id}").content
    assert found == []
    assert list(world_readable(shop.instance)) == []


def _places(instance: Instance, program: Path) -> Iterator[Path]:
    """Yield the logs, the files beside the data, all arguments, and the environment of what is no part of Ramet."""
    yield instance.log_file
    for above, _, names in os.walk(instance.data):  # it passes over what is deleted beside it
        for path in (Path(above) / name for name in names if "ramet.db" not in name):
            with suppress(FileNotFoundError):
                if path.is_file() and path.stat().st_size < 50_000_000:
                    yield path
    for directory in Path("/proc").glob("[0-9]*"):
        yield directory / "cmdline"
        with suppress(OSError):
            if (directory / "exe").readlink() != program:
                yield directory / "environ"
