"""External programs: a failure says what was run, how it ended and what it said."""

import pytest

from ramet.errors import Failed
from ramet.machine.programs import run


def test_a_program_answers_with_its_output() -> None:
    assert run(["printf", "%s", "a b"]) == "a b"


def test_a_failure_names_arguments_status_and_the_end_of_stderr() -> None:
    with pytest.raises(Failed, match="ls /nowhere failed with exit status 2") as caught:
        run(["ls", "/nowhere"])
    assert "No such file" in caught.value.details


def test_a_missing_program_is_named() -> None:
    with pytest.raises(Failed, match="The program no-such-program is not installed"):
        run(["no-such-program"])


def test_a_program_that_runs_too_long_is_killed() -> None:
    with pytest.raises(Failed, match=r"sleep 60 did not finish within 0\.05 seconds"):
        run(["sleep", "60"], timeout_seconds=0.05)


def test_programs_do_not_translate_what_is_read_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LANG", "de_DE.UTF-8"), ("LC_ALL", "de_DE.UTF-8"), ("LANGUAGE", "de:pl")):
        monkeypatch.setenv(name, value)
    assert run(["printenv", "LC_ALL"]) == "C\n"
