"""What pg_controldata says of a control file, and what is known when it says nothing."""

from pathlib import Path
from typing import Any

import pytest

from ramet.backends.local.wal.control_file import find_control_data, read_control_data
from ramet.errors import Failed, Unseen


class Ending:
    """An installation whose programs end in some way."""

    def __init__(self, directory: Path, ending: str) -> None:
        self._path = directory / "program"
        self._path.write_text(f"#!/bin/sh\n{ending}\n")
        self._path.chmod(0o755)

    def program(self, _name: str) -> str:
        return str(self._path)


def test_a_control_file_that_pg_controldata_refuses_is_damaged(tmp_path: Path) -> None:
    refusing: Any = Ending(tmp_path, "exit 1")
    with pytest.raises(Failed, match="cannot be read"):
        read_control_data(refusing, tmp_path)
    assert find_control_data(refusing, tmp_path) is None


def test_a_killed_pg_controldata_says_nothing_about_the_control_file(tmp_path: Path) -> None:
    killed: Any = Ending(tmp_path, "kill -KILL $$")
    for read in (read_control_data, find_control_data):
        with pytest.raises(Unseen, match="signal 9 ended pg_controldata"):
            read(killed, tmp_path)
