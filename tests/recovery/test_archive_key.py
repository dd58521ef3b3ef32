"""`ramet archive key` prints the key that the catalogue is encrypted with."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ramet.cli.commands import cli
from ramet.configured import open_store, recovery_key
from ramet.errors import Invalid, NotFound
from ramet.recovery.catalogue import Secrets
from ramet.recovery.sealed import ensure_key, note_use
from ramet.recovery.session import mark_data_dir
from ramet.settings import load_settings, make_data_dir


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    settings = load_settings({}, data_dir=tmp_path / "data")
    make_data_dir(settings.data_dir)
    open_store(settings).close()
    return settings.data_dir


def test_the_key_is_made_once_and_printed_with_what_to_do(data_dir: Path) -> None:
    first, second = (CliRunner().invoke(cli, ["archive", "key", "--data", str(data_dir)]) for _ in range(2))
    assert first.stdout == second.stdout == ensure_key(data_dir / "secrets").secret.reveal() + "\n"
    assert "Keep this key" in first.stderr


def test_a_key_of_the_operators_own_is_used(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ensure_key(tmp_path / "own")
    monkeypatch.setenv("RAMET_ARCHIVE_KEY_FILE", str(tmp_path / "own" / "archive.key"))
    shown = CliRunner().invoke(cli, ["archive", "key", "--data", str(data_dir)])
    assert shown.stdout.strip() == own.secret.reveal()
    assert not (data_dir / "secrets" / "archive.key").exists()


def test_a_directory_without_ramet_gets_no_key(tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["archive", "key", "--data", str(tmp_path)])
    assert isinstance(refused.exception, NotFound)
    assert list(tmp_path.iterdir()) == []


def test_no_key_is_made_or_printed_where_the_catalogue_has_another_one(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running Ramet has RAMET_ARCHIVE_KEY_FILE in the file of its unit, and this shell has not."""
    own = ensure_key(tmp_path / "own")
    note_use(data_dir / "secrets", own)
    command = ["archive", "key", "--data", str(data_dir)]
    refused = CliRunner().invoke(cli, command)
    assert isinstance(refused.exception, Invalid)
    assert (refused.exception.code, refused.stdout) == ("WRONG_ARCHIVE_KEY", "")
    assert own.key_id in refused.exception.message
    assert "RAMET_ARCHIVE_KEY_FILE" in (refused.exception.details or "")
    assert not (data_dir / "secrets" / "archive.key").exists()

    left = ensure_key(tmp_path / "left")
    (tmp_path / "left" / "archive.key").rename(data_dir / "secrets" / "archive.key")
    assert left.secret.reveal() not in CliRunner().invoke(cli, command).stdout
    monkeypatch.setenv("RAMET_ARCHIVE_KEY_FILE", str(tmp_path / "own" / "archive.key"))
    assert CliRunner().invoke(cli, command).stdout.strip() == own.secret.reveal()


def test_a_recovery_that_began_without_the_key_is_one_without_it_to_the_end(tmp_path: Path) -> None:
    key = ensure_key(tmp_path / "kept")
    for data_dir, first in ((tmp_path / "with", key), (tmp_path / "without", None)):
        for given in (first, key, None):
            has_secrets = mark_data_dir(data_dir, "file:///archive", Secrets(files={"root.key": b"root"}), given)
            assert has_secrets == (first is not None)


def test_no_other_key_is_made_by_a_ramet_that_lacks_the_setting(data_dir: Path, tmp_path: Path) -> None:
    own = ensure_key(tmp_path / "own")
    note_use(data_dir / "secrets", own)
    settings = load_settings({}, data_dir=data_dir)
    with pytest.raises(Invalid, match=f"encrypted with the recovery key {own.key_id}") as refused:
        recovery_key(settings)
    assert refused.value.code == "WRONG_ARCHIVE_KEY"
    assert not (data_dir / "secrets" / "archive.key").exists()
    (data_dir / "secrets" / "archive.key-id").unlink()
    assert recovery_key(settings) != own
