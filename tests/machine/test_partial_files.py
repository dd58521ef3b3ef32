"""Files that replace another one, and what killed processes leave of them."""

import os
import time
from pathlib import Path

from ramet.machine.partial_files import partial_of


def test_what_a_killed_process_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path, long_ago = tmp_path / "clock.json", time.time() - 7200
    for name in ("clock.json", "clock.json.1", "clock.json.20260101", "clock.json.old", "other.json.1"):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (long_ago, long_ago))
    (tmp_path / "clock.json.2").write_bytes(b"")  # being written
    assert partial_of(path) == tmp_path / f"clock.json.{os.getpid()}"
    left = {each.name for each in tmp_path.iterdir()}
    assert left == {"clock.json", "clock.json.2", "clock.json.20260101", "clock.json.old", "other.json.1"}
