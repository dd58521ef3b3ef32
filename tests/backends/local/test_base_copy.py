"""The base copy of a source, without a server: what a call finds that an earlier one, which was killed, has left."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ramet.backends.local.followers.base_copy import BaseCopy
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
