"""The base copy of a source, without a server: what a call finds that an earlier one, which was killed, has left."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ramet.backends.local.followers.base_copy import BaseCopy, _Heard
from ramet.backends.local.followers.followers import LocalFollowers
from ramet.backends.local.host.paths import Layout
from ramet.backends.local.server.standby import source_directory
from ramet.errors import Exhausted, Failed
from tests.backends.kubernetes.servers import SHARED, UPSTREAM


def test_a_copy_that_was_complete_when_its_process_was_killed_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(tmp_path / "services", tmp_path / "sockets")
    instances: Any = SimpleNamespace(paths=layout.service)
    copy = BaseCopy(instances, None, SHARED, UPSTREAM, lambda: 0)  # type: ignore[arg-type]
    source_directory(copy.paths).mkdir(parents=True)
    copies: list[str | None] = []

    def copied(_copy: BaseCopy, slot: str | None) -> dict[str, Any]:
        copies.append(slot)
        (copy.paths.unfinished / "base").mkdir(parents=True)
        return {"received_bytes": 1, "seconds": 0.1, "timeline": 1, "redo_lsn": "0/1"}

    monkeypatch.setattr(BaseCopy, "_copy", copied)
    assert [copy.fetch() for _ in range(2)] == [{"received_bytes": 1, "seconds": 0.1}] * 2
    assert len(copies) == 1
    assert (copy.paths.data / "base").is_dir()


def test_a_notice_of_the_source_that_looks_like_progress_with_thousands_of_digits_is_none(tmp_path: Path) -> None:
    heard = _Heard(tmp_path / "progress", lambda: 0)
    heard.hear("2048/4096 kB (50%), 0/1 tablespace\n")
    heard.hear(f"NOTICE:  {'9' * 5000}/{'9' * 3000} kB\n")
    assert heard.done_bytes == 2048 * 1024


def test_a_copy_is_stopped_before_it_takes_the_space_that_other_services_need(tmp_path: Path) -> None:
    server = replace(SHARED, upstream=UPSTREAM)
    layout = Layout(tmp_path / "services", tmp_path / "sockets")
    source_directory(layout.service(SHARED.service_id)).mkdir(parents=True)
    free_bytes = 2**30
    pool: Any = SimpleNamespace(driver=None, path=tmp_path, free_bytes=lambda: free_bytes, total_bytes=lambda: 2**30)
    followers = LocalFollowers(SimpleNamespace(paths=layout.service), pool, None)  # type: ignore[arg-type]
    followers.__dict__["jobs"] = SimpleNamespace(kept_result=lambda *_args, **_wanted: None)
    assert followers.fetch(server, 0, 0.5).facts is None
    assert followers.copy_again(server, 0.5).facts is None
    free_bytes = 127 * 2**20
    stopped = pytest.raises(Exhausted, match=r"127 MiB left, .* so the copy of the source was stopped")
    with stopped:
        followers.fetch(server, 0, 0.5)
    with stopped:
        followers.copy_again(server, 0.5)


def test_a_copy_that_is_not_complete_does_not_count_as_one_that_has_replaced_the_data(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "services", tmp_path / "sockets")
    layout.service(SHARED.service_id).unfinished.mkdir(parents=True)
    followers = LocalFollowers(SimpleNamespace(paths=layout.service), None, None)  # type: ignore[arg-type]
    with pytest.raises(Failed, match="is not complete"):
        followers.replace(replace(SHARED, upstream=UPSTREAM), keeps_wal=False)
