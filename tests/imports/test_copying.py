"""What the load of an import says of its progress."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.sources import copying
from ramet.backends.local.sql import connections


def test_a_load_makes_progress_while_a_session_of_it_only_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = {11: 100, 12: 100}
    titles = [(11, "postgres: tsdbadmin tsdb [local] ALTER TABLE"), (12, "postgres: checkpointer ")]
    monkeypatch.setattr(connections, "connect", lambda _: nullcontext())
    monkeypatch.setattr(copying, "row", lambda *_: (1024**2, 0))
    monkeypatch.setattr(postgres, "running", lambda _: 10)
    monkeypatch.setattr(copying, "children_of", lambda _: iter(titles))
    monkeypatch.setattr(copying, "work_done", done.__getitem__)

    def said() -> str:
        return copying._loading(ServicePaths(tmp_path, tmp_path), 1, 2)

    before = said()
    assert before == "1 of 2 tables begun, 1 MiB in the database (1048576 bytes), work 100"
    done[12] += 1
    assert said() == before
    done[11] += 1
    assert said() != before
