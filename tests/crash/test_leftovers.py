"""`ramet doctor --leftovers` on a host with something lying about."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.instance import Instance
from prove import crash

pytestmark = [pytest.mark.crash, pytest.mark.slow]
RAMET = Path(sys.executable).with_name("ramet")


def doctor(instance: Instance, *arguments: str, answer: str = "") -> "subprocess.CompletedProcess[str]":
    command = [str(RAMET), "doctor", "--leftovers", "--data", str(instance.data), *arguments]
    return subprocess.run(command, input=answer, capture_output=True, text=True, check=False, timeout=250)


def test_an_operator_finds_leftovers_and_removes_them_after_being_asked(instance: Instance) -> None:
    assert doctor(instance).returncode == 0
    stranger = instance.backend.instances.layout.services / "a000000000"
    (stranger / "data").mkdir(parents=True)
    found = doctor(instance)
    assert (found.returncode, found.stdout) == (1, "The directory a000000000 is left over: no row owns it.\n")
    assert doctor(instance, "--clean", answer="n\n").returncode == 1
    assert stranger.exists()
    assert doctor(instance, "--clean", answer="y\n").returncode == 0
    assert not stranger.exists()


def test_the_harness_that_kills_finds_nothing_lost(capsys: pytest.CaptureFixture[str]) -> None:
    assert crash.main(["--seeds", "1", "--only", "random time"]) == 0, capsys.readouterr()
