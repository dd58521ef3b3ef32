"""External programs: a failure says what was run, how it ended and what it said."""

from pathlib import Path

import pytest

from ramet.backends.local.volumes.syscalls import run, sync_tree
from ramet.errors import Failed


def test_a_program_answers_with_its_output() -> None:
    assert run(["printf", "%s", "a b"]) == "a b"


def test_a_failure_names_arguments_status_and_last_words() -> None:
    with pytest.raises(Failed, match="ls /nowhere ended with status 2") as caught:
        run(["ls", "/nowhere"])
    assert "No such file" in caught.value.details


def test_a_missing_program_is_named() -> None:
    with pytest.raises(Failed, match="The program no-such-program is not installed"):
        run(["no-such-program"])


def test_a_program_that_does_not_end_is_given_up() -> None:
    with pytest.raises(Failed, match=r"sleep 60 did not end within 0\.05 seconds"):
        run(["sleep", "60"], timeout_seconds=0.05)


def test_syncing_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    sync_tree(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_tree(tmp_path / "nowhere")
