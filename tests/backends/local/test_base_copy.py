"""The base copy of a source, without a server: what a call finds that an earlier one, which was killed, has left."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ramet.backends.local.followers.base_copy import BaseCopy, _Heard
from ramet.backends.local.host.paths import Layout
from ramet.backends.local.server.standby import source_directory
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
