"""The fixtures for tests of others: what they do to the process that runs these."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal

_SUITE = """
import os

_ELSEWHERE = {"PGSERVICE", "PGSERVICEFILE", "PGHOSTADDR"}


def test_before():
    assert _ELSEWHERE <= set(os.environ)


def test_with_a_fork(ramet_fork):
    assert _ELSEWHERE & set(os.environ) == set()
"""


def test_while_a_fork_exists_no_variable_leads_elsewhere(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert terminal.ramet("service", "create", "shop").code == 0
    for name in ("PGSERVICE", "PGSERVICEFILE", "PGHOSTADDR"):
        monkeypatch.setenv(name, "of another server")
    (tmp_path / "test_suite.py").write_text(_SUITE)
    words = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--ramet-parent", "shop", "test_suite.py")
    suite = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False
    )
    assert (suite.returncode, "2 passed" in suite.stdout) == (0, True), suite.stdout + suite.stderr
