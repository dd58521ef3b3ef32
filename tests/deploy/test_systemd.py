"""The units for systemd: what systemd itself says of them, and what the databases need of them."""

import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "deploy/systemd"


def unit(name: str) -> ConfigParser:
    found = ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string((UNITS / name).read_text())
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for each in UNITS.iterdir():
        # It also looks for the programs, which are not installed on the machine of a test.
        (tmp_path / each.name).write_text(each.read_text().replace("/opt/ramet/.venv/bin/ramet", "/bin/true"))
    names = [str(tmp_path / each.name) for each in UNITS.iterdir()]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names], capture_output=True, text=True, check=False, timeout=60
    )
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "ramet" in line]
    assert (done.returncode, said) == (0, []), done.stderr


def test_stopping_ramet_leaves_the_databases_alone_and_stopping_the_host_ends_them_in_order() -> None:
    ramet, databases = unit("ramet.service"), unit("ramet-databases.service")
    assert ramet["Service"]["KillMode"] == "process"
    assert ramet["Unit"]["Requires"] == "ramet-databases.service"
    assert "ramet-databases.service" in ramet["Unit"]["After"].split()
    assert databases["Service"]["ExecStop"] == "/opt/ramet/.venv/bin/ramet down"
    assert ramet["Service"]["EnvironmentFile"] == databases["Service"]["EnvironmentFile"]


def test_the_halves_of_ramet_exclude_the_whole_and_stop_before_the_databases() -> None:
    for name in ("ramet-serve.service", "ramet-worker.service"):
        half = unit(name)
        assert half["Unit"]["Conflicts"] == "ramet.service"
        assert half["Unit"]["Requires"] == "ramet-databases.service"
        assert "ramet-databases.service" in half["Unit"]["After"].split()
        assert half["Service"]["ExecStart"] == f"/opt/ramet/.venv/bin/ramet {name[6:-8]}"
    assert unit("ramet-worker.service")["Service"]["KillMode"] == "process"
