"""What `ramet recover` refuses before it makes anything."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ramet.archive.object_store import Bucket, open_bucket
from ramet.cli.commands import cli
from ramet.cli.host import commands
from ramet.recovery.sealed import KEY_FILE
from tests.recovery.archives import archive_base, publish
from tests.worlds import World


@pytest.fixture
def archive(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """The archive of a host with one service; what a command changes of this process is as before at the end."""
    (tmp_path / "archive").mkdir()
    archived = open_bucket(f"file://{tmp_path}/archive")
    archive_base(archived, world.create("shop").id, tmp_path)
    publish(world, archived, tmp_path)
    for name in ("start_logging", "_allow_all_files"):
        monkeypatch.setattr(commands, name, lambda *_: None)
    mask, handler = os.umask(0o077), signal.getsignal(signal.SIGTERM)
    yield archived
    os.umask(mask)
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize(
    ("options", "key", "said"),
    [
        (("other",), "", "no service with the id or the name 'other'"),
        (("--all",), "", "which 'ramet archive key' printed on the lost host"),
        (("--all",), "A" * 43, "is not the one that the archive was encrypted with"),
        (("--all",), "kept", "belongs to installation"),
    ],
)
def test_a_recovery_that_is_refused_makes_no_store(
    archive: Bucket, tmp_path: Path, options: tuple[str, ...], key: str, said: str
) -> None:
    path, data = tmp_path / "given.key", tmp_path / "new"
    path.write_text((tmp_path / "kept" / KEY_FILE).read_text() if key == "kept" else key)
    given = ("--archive-key-file", str(path)) if key else ()
    ended = CliRunner().invoke(cli, ["recover", "--from", archive.url, "--data", str(data), *options, *given])
    assert said in str(ended.exception)
    assert not (data / "ramet.db").exists()
    if key == "kept":
        assert "then give --take-over" in str(getattr(ended.exception, "details", ""))
