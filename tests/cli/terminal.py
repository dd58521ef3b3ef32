"""A terminal for tests: runs `ramet` in this process and keeps what it said."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ramet.cli.commands import cli
from ramet.cli.ui.exit_codes import run


@dataclass(frozen=True)
class Said:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Standard output, read as JSON."""
        return json.loads(self.out)


class Terminal:
    """A user with a home directory and environment variables."""

    def __init__(
        self,
        home: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        environ: Mapping[str, str],
    ) -> None:
        self.home = home
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        monkeypatch.setenv("RAMET_DATA_DIR", str(home / "data"))
        for name, value in environ.items():
            monkeypatch.setenv(name, value)

    @property
    def config(self) -> Path:
        """The directory of the user's own files."""
        return self.home / ".config" / "ramet"

    def ramet(self, *arguments: str, typed: str = "") -> Said:
        """Run `ramet`; `typed` is what the user answers to questions."""
        self._capsys.readouterr()
        self._monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code = run(lambda: cli.main(list(arguments), prog_name="ramet", standalone_mode=False))
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)

    def made(self, *arguments: str) -> Any:
        """Run a command that must succeed, and return what it printed as JSON."""
        said = self.ramet(*arguments, "-o", "json")
        assert said.code == 0, said.err
        return said.data
