"""Directories for sockets that killed data roots have left."""

import os
import time
from pathlib import Path

from ramet.backends.local.host.paths import Layout, sweep_sockets

HOUR_SECONDS = 3600


def test_empty_directories_of_long_ago_are_swept_and_no_others(tmp_path: Path) -> None:
    names = ("own", "abandoned", "recent", "used")
    own, abandoned, recent, used = (tmp_path / name for name in names)
    (used / "service").mkdir(parents=True)
    for path in (own, abandoned, recent):
        path.mkdir()
    now = time.time()
    for path in (own, abandoned, used):
        os.utime(path, (now - 2 * HOUR_SECONDS,) * 2)
    sweep_sockets(Layout(tmp_path / "services", own), now)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own", "recent", "used"]
