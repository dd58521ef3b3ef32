"""How the parts are put together."""

import errno
import os
import stat
from dataclasses import make_dataclass, replace
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.app import Runtime, automatic_forks, long_steps, wire
from ramet.backends.memory.backend import MemoryBackend
from ramet.backends.memory.host import MemoryHost
from ramet.cli.host.data_dir import existing_data_dir
from ramet.configured import back_up_store, has_storage, has_store, is_store_used, open_store
from ramet.control import services
from ramet.control.plane import utc_now
from ramet.control.requests import CreateRequest
from ramet.errors import NotFound, Unavailable, WrongState
from ramet.followers.observation import Observing
from ramet.model.procedures import COPYING_STEPS, SENDING_STEPS
from ramet.settings import Settings, load_settings, make_data_dir
from ramet.store.database import Store


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = load_settings({}, data_dir=tmp_path / "deep" / "data")
    make_data_dir(made.data_dir)
    return made


def test_the_root_key_is_private_and_stays_the_same(settings: Settings) -> None:
    keys = []
    for _ in range(2):
        wire(settings, open_store(settings), MemoryBackend()).close()
        path = settings.data_dir / "secrets" / "root.key"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        keys.append(path.read_bytes())
    assert keys[0] == keys[1]
    assert len(keys[0]) == 32
    assert [path.name for path in (settings.data_dir / "secrets").iterdir()] == ["root.key"]


def test_types_are_learnt_before_threads_use_them(settings: Settings) -> None:
    made = make_dataclass("Made", [("number", int)], namespace={"__module__": "ramet.made"})
    wire(settings, open_store(settings), MemoryBackend()).close()
    assert "__msgspec_cache__" in vars(made)


def test_a_data_directory_is_never_open_to_others(settings: Settings) -> None:
    settings.data_dir.chmod(0o777)
    make_data_dir(settings.data_dir)
    assert stat.S_IMODE(settings.data_dir.stat().st_mode) == (0o711 if os.geteuid() == 0 else 0o700)


def test_ramet_starts_without_asking_the_sources_of_subscriptions(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Observing] = []
    monkeypatch.setattr(Observing, "observe_subscriptions", asked.append)
    runtime = wire(settings, open_store(settings), MemoryBackend())
    runtime.schedule.perform_due()
    runtime.close()
    assert asked == []


def test_work_that_was_accepted_before_a_restart_is_finished_after_it(settings: Settings) -> None:
    backend = MemoryBackend()
    first = wire(settings, open_store(settings), backend)
    project = first.projects.create_project("main", utc_now())
    accepted = services.create_service(first.plane, project.id, CreateRequest("shop"))
    first.close()

    second = wire(settings, open_store(settings), backend)
    second.start()
    try:
        eventually(lambda: services.get_service(second.plane, project.id, accepted.service.id).ready_at is not None)
    finally:
        second.stop()
        second.close()


def test_a_place_is_known_by_what_lies_there(settings: Settings) -> None:
    assert not has_store(settings)
    assert not has_storage(settings)
    open_store(settings).close()
    assert has_store(settings)


@pytest.mark.parametrize("name", ["a%20b", "what?", "one#two"])
def test_the_store_is_in_the_data_directory_whatever_that_is_named(tmp_path: Path, name: str) -> None:
    settings = load_settings({}, data_dir=tmp_path / name)
    make_data_dir(settings.data_dir)
    open_store(settings).close()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert has_store(settings)


@pytest.mark.parametrize("is_empty", [True, False])
def test_no_store_is_made_beside_the_storage_of_services(settings: Settings, is_empty: bool) -> None:
    open_store(settings).close()
    (settings.data_dir / "pool.json").write_text("{}")
    open_store(settings).close()
    store = settings.data_dir / "ramet.db"
    store.rename(settings.data_dir / "ramet.db.broken")
    if is_empty:
        store.touch()
    for migrates in (True, False):
        with pytest.raises(WrongState, match=r"ramet\.db is missing") as refused:
            open_store(settings, migrates=migrates)
        assert refused.value.code == "STORE_MISSING"
    assert not store.exists() or store.stat().st_size == 0


def test_a_command_on_a_directory_whose_store_is_lost_says_so(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAMET_DATABASE_URL", raising=False)
    with pytest.raises(NotFound, match="is not a data directory"):
        existing_data_dir(settings.data_dir)
    (settings.data_dir / "pool.json").write_text("{}")
    with pytest.raises(WrongState, match=r"ramet\.db is missing") as refused:
        existing_data_dir(settings.data_dir)
    # First what a shell lacks: an old store would take newer services for leftovers.
    assert refused.value.details.startswith("Set RAMET_DATABASE_URL as it is for the running Ramet")
    assert existing_data_dir(settings.data_dir, store=False, storage=True).data_dir == settings.data_dir


def test_a_store_whose_url_has_an_escape_and_a_query_is_found_again_and_backed_up(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/my%20store.db?timeout=30"
    settings = load_settings({"RAMET_DATABASE_URL": url}, data_dir=tmp_path / "data")
    make_data_dir(settings.data_dir)
    open_store(settings).close()
    (settings.data_dir / "pool.json").write_text("{}")
    open_store(settings).close()
    assert back_up_store(settings, tmp_path / "copy.db")
    assert {path.name for path in tmp_path.glob("*.db")} == {"my store.db", "copy.db"}


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_store_in_a_file_that_the_settings_name_is_used_once_it_is_there(tmp_path: Path, is_empty: bool) -> None:
    url, store = f"sqlite:///{tmp_path}/other.db", tmp_path / "other.db"
    settings = load_settings({"RAMET_DATABASE_URL": url}, data_dir=tmp_path / "new")
    make_data_dir(settings.data_dir)
    if is_empty:
        store.touch()
    assert not is_store_used(settings)
    open_store(settings).close()
    assert is_store_used(settings)


def test_a_command_says_of_a_named_store_that_it_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAMET_DATABASE_URL", f"sqlite:///{tmp_path}/lost.db")
    make_data_dir(tmp_path / "data")
    with pytest.raises(NotFound, match="is not a data directory"):
        existing_data_dir(tmp_path / "data")
    (tmp_path / "data" / "pool.json").write_text("{}")
    with pytest.raises(WrongState, match=r"lost\.db is missing"):
        existing_data_dir(tmp_path / "data")


def test_the_reserve_of_a_full_disk_is_removed_before_the_store_is_opened(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def opened(settings: Settings) -> Store:
        done.append("store")
        return open_store(settings)

    monkeypatch.setattr(MemoryHost, "storage_pressure", lambda *_, **__: done.append("reserve"))
    monkeypatch.setattr("ramet.app.backend_of", lambda _: MemoryBackend())
    monkeypatch.setattr("ramet.app.open_store", opened)
    for _ in range(2):
        Runtime.open(settings).close()
        (settings.data_dir / "pool.json").write_text("{}")
    assert done == ["store", "reserve", "store"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Unavailable("GONE", "It is gone")])
def test_ramet_starts_where_the_reserve_cannot_be_removed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    open_store(settings).close()
    (settings.data_dir / "pool.json").write_text("{}")

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(MemoryHost, "storage_pressure", fails)
    monkeypatch.setattr("ramet.app.backend_of", lambda _: MemoryBackend())
    Runtime.open(settings).close()


@pytest.mark.parametrize(
    ("backend", "volume_type", "said", "kept"),
    [
        ("local", "xfs", None, 20),
        ("local", "copy", None, 0),
        ("kubernetes", "xfs", None, 0),
        ("kubernetes", "copy", 3, 3),
    ],
)
def test_forks_are_kept_unasked_where_they_cost_little_or_somebody_wants_them(
    settings: Settings, backend: str, volume_type: str, said: int | None, kept: int
) -> None:
    assert automatic_forks(replace(settings, backend=backend, automatic_warm_forks=said), volume_type) == kept


@pytest.mark.parametrize(
    ("volume_type", "location", "steps"),
    [
        ("memory", None, set()),
        ("memory", "s3://bucket", SENDING_STEPS),
        ("copy", "s3://bucket", COPYING_STEPS),
    ],
)
def test_steps_that_wait_for_copies_or_for_an_archive_leave_threads_to_others(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, volume_type: str, location: str | None, steps: set[str]
) -> None:
    monkeypatch.setattr(MemoryHost, "volume_type", lambda _: volume_type)
    backend = MemoryBackend()
    backend.archive.location = location
    runtime = wire(settings, open_store(settings), backend)
    assert runtime.worker._known.long == long_steps(backend) == steps
    runtime.close()
