"""System calls that Python does not offer."""

from pathlib import Path

import pytest

from ramet.backends.local.volumes.syscalls import sync_tree


def test_syncing_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    sync_tree(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_tree(tmp_path / "nowhere")
