"""A data directory that was moved stays moved, whatever ends the host after that."""

from pathlib import Path

import pytest

from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host import files
from tests.backends.local.hosts import new_server


class Killed(Exception):
    """Stands for the end of the process."""


def test_a_move_whose_first_run_was_killed_before_its_flush_is_flushed_by_the_second(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = new_server(backend.instances), new_server(backend.instances)
    giver = backend.instances.make_directories(source)
    giver.data.mkdir()
    taker = backend.instances.paths(target.service_id)

    def kill(path: Path) -> None:
        raise Killed

    monkeypatch.setattr(files, "flush", kill)
    with pytest.raises(Killed):
        backend.replacements.move_data(source, target)
    flushed: list[Path] = []
    monkeypatch.setattr(files, "flush", flushed.append)
    backend.replacements.move_data(source, target)
    assert taker.data.is_dir()
    assert {giver.root, giver.snapshots, taker.root, taker.snapshots} <= set(flushed)
