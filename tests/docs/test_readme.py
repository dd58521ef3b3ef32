"""The commands of README.md run as they stand there."""

import re
import shlex
import time
from pathlib import Path

import pytest

from harness.instance import running_instance
from ramet.model.status import Status

PAGE = Path(__file__).parents[2] / "README.md"
_ELSEWHERE = ("pip install '.[postgres]'", "RAMET_PLAINTEXT_ENDPOINTS=on ramet up")


def _commands() -> list[list[str]]:
    """Return the commands of the section that shows them, without what `running_instance` stands for."""
    section = PAGE.read_text().split("\n## ")[1]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    assert lines[:2] == list(_ELSEWHERE)
    return [shlex.split(line) for line in lines if line not in _ELSEWHERE]


@pytest.mark.slow
def test_the_commands_of_the_readme_run_in_their_order() -> None:
    commands = _commands()
    assert ["--to", "5s"] in [words[3:5] for words in commands]
    with running_instance(DISPLAY="", WAYLAND_DISPLAY="") as host, host.client() as client:
        for program, *words in commands:
            if program == "sleep":
                time.sleep(float(words[0]))  # as the README says: what follows asks for a time that long ago
                continue
            assert program == "ramet"
            done = host.run(*words)
            assert done.returncode == 0, (words, done.stderr)
        left = {one.name for one in client.list_services() if one.status is not Status.DELETING}
        assert left == {"shop", "preview", "undo"}
