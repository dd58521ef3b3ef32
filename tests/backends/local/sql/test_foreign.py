"""What is noted of a copy that was not taken over yet."""

import os
from pathlib import Path

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql import foreign


def test_a_note_is_read_through_no_link_and_from_no_pipe(tmp_path: Path) -> None:
    paths, known = ServicePaths(tmp_path / "a", tmp_path), foreign.Foreign("postgres", "shop", ("r\udcff",))
    paths.root.mkdir(parents=True, exist_ok=True)
    foreign.write(paths, known)
    assert foreign.read(paths) == known
    note, elsewhere = paths.root / "foreign.json", tmp_path / "elsewhere"
    note.rename(elsewhere)
    note.symlink_to(elsewhere)
    assert foreign.read(paths) is None
    note.unlink()
    os.mkfifo(note)
    assert foreign.read(paths) is None
