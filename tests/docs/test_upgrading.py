"""The commands of docs/upgrading.md upgrade a service as they stand there."""

import re
from pathlib import Path

import pytest

from harness.instance import Instance, running_instance
from ramet.machine.installation import find_installations

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_PAGE = Path(__file__).parents[2] / "docs" / "upgrading.md"
_OLD, _NEW = min(find_installations().by_major), max(find_installations().by_major)


def commands_of_page() -> list[str]:
    """Return the commands of the page in their order, with the newest version here."""
    found = re.findall(r"```sh\nramet (.*?)\n```", _PAGE.read_text())
    return [command.replace("--to 18", f"--to {_NEW}") for command in found]


def test_the_page_leads_to_the_new_version() -> None:
    with running_instance(RAMET_PG_BIN=str(find_installations().of(_OLD).bin)) as ramet:
        _follow(ramet)


def _follow(ramet: Instance) -> None:
    made = ramet.run("service", "create", "shop", "--credentials-file", str(ramet.credentials_file))
    assert made.returncode == 0, made.stderr
    said = []
    for command in commands_of_page():
        done = ramet.run(*command.split(), "--credentials-file", str(ramet.credentials_file))
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    tried, listed, upgraded = said
    assert re.search(r"status +SUCCEEDED", tried)
    assert re.search(r"downtime +about ", tried)
    assert f"{_OLD}." in listed
    assert re.search(r"state before +paused service ", upgraded)
    shown = ramet.run("service", "list", "--credentials-file", str(ramet.credentials_file)).stdout
    assert re.search(rf"shop .*READY .*POSTGRES {_NEW}", shown)
    assert re.search(rf"shop-before-{_NEW} .*PAUSED .*POSTGRES {_OLD}", shown)
