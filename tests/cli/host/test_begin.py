"""What a process of a data directory does first."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from ramet.archive.object_store import open_bucket
from ramet.backends.memory.backend import MemoryBackend
from ramet.cli.commands import cli
from ramet.cli.host import commands
from ramet.operations.schedule import Duty, Schedule
from ramet.recovery import session
from tests.recovery.archives import archive_base, publish
from tests.stores import open_store
from tests.worlds import make_world


@pytest.fixture
def kept() -> Iterator[None]:
    """What a command changes of its process is as before after the test."""
    mask, handler = os.umask(0o077), signal.getsignal(signal.SIGTERM)
    yield
    os.umask(mask)
    signal.signal(signal.SIGTERM, handler)


def test_variables_of_libpq_lead_no_session_of_the_platform_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"PGHOSTADDR", "PGSERVICE", "PGSERVICEFILE"}
    for variable in variables:
        monkeypatch.setenv(variable, "127.0.0.1")
    for name in ("start_logging", "_allow_all_files"):
        monkeypatch.setattr(commands, name, lambda *_: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    mask = os.umask(0o077)
    try:
        commands.begin(tmp_path / "data")
    finally:
        os.umask(mask)
    assert not variables & set(os.environ)


@pytest.mark.usefixtures("kept")
def test_sigterm_ends_a_process_also_while_it_performs_the_duties_of_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("start_logging", "_allow_all_files"):
        monkeypatch.setattr(commands, name, lambda *_: None)
    commands.begin(tmp_path / "data")
    store = open_store(f"sqlite:///{tmp_path}/ramet.db")
    schedule = Schedule(store, [Duty("slow", 1.0, partial(os.kill, os.getpid(), signal.SIGTERM))])
    with pytest.raises(SystemExit) as ended:
        schedule.perform_due()
    assert ended.value.code == 0
    store.close()


@pytest.mark.usefixtures("kept")
def test_sigterm_does_not_let_an_incomplete_recovery_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lost").mkdir()
    world, bucket = make_world(tmp_path / "lost"), open_bucket(f"file://{tmp_path}/lost")
    archive_base(bucket, world.create("shop").id, tmp_path)
    publish(world, bucket, tmp_path)
    for name in ("start_logging", "_allow_all_files"):
        monkeypatch.setattr(commands, name, lambda *_: None)
    monkeypatch.setattr("ramet.app.backend_of", lambda _: MemoryBackend())
    monkeypatch.setattr(session, "progress_of", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    options = ("--from", bucket.url, "--data", str(tmp_path / "new"), "--all", "--take-over", "--without-key")
    ended = CliRunner().invoke(cli, ["recover", *options], standalone_mode=False)
    assert "The recovery is not complete" in str(ended.exception)
    assert ended.exit_code != 0
