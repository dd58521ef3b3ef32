"""What a process of a data directory does first."""

import os
from pathlib import Path

import pytest

from ramet.cli.host import commands


def test_variables_of_libpq_lead_no_session_of_the_platform_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("PGHOSTADDR", "PGSERVICE"):
        monkeypatch.setenv(variable, "127.0.0.1")
    for name in ("start_logging", "_allow_all_files"):
        monkeypatch.setattr(commands, name, lambda *_: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    mask = os.umask(0o077)
    try:
        commands.begin(tmp_path / "data")
    finally:
        os.umask(mask)
    assert not {"PGHOSTADDR", "PGSERVICE"} & set(os.environ)
