"""The commands of README.md run as they stand there."""

import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.instance import running_instance
from harness.waiting import eventually
from ramet.client import Client
from ramet.model.status import Status

PAGE = Path(__file__).parents[2] / "README.md"
_ELSEWHERE = ("pip install 'ramet[postgres]'", "RAMET_PLAINTEXT_ENDPOINTS=on ramet up")


def _commands() -> list[list[str]]:
    """Return the commands of the section that shows them, without what `running_instance` stands for."""
    section = PAGE.read_text().split("\n## ")[1]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    assert lines[:2] == list(_ELSEWHERE)
    return [shlex.split(line) for line in lines if line not in _ELSEWHERE]


def _window_is_open_for(client: Client, age: timedelta) -> bool:
    [shop] = [one for one in client.list_services() if one.name == "shop"]
    earliest = client.restore_window(shop.service_id).earliest
    return earliest is not None and earliest < datetime.now(UTC) - age


@pytest.mark.slow
def test_the_commands_of_the_readme_run_in_their_order() -> None:
    commands = _commands()
    assert ["--to", "5s"] in [words[3:5] for words in commands]
    with running_instance(DISPLAY="", WAYLAND_DISPLAY="") as host, host.client() as client:
        for program, *words in commands:
            assert program == "ramet"
            if "--to" in words:  # whoever types has taken longer
                eventually(lambda: _window_is_open_for(client, timedelta(seconds=5)))
            done = host.run(*words)
            assert done.returncode == 0, (words, done.stderr)
        left = {one.name for one in client.list_services() if one.status is not Status.DELETING}
        assert left == {"shop", "preview", "undo"}
