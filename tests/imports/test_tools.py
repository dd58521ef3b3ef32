"""What is concluded from how a program of PostgreSQL ended, and from what it said."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ramet.backends.local.host.system_user import Account
from ramet.backends.local.sources.tools import Finished, Workplace, check_dump, refused_statements
from ramet.errors import Failed

REFUSED = "pg_restore: error: could not execute query: ERROR:  no privileges could be granted"
LOST = "pg_restore: error: could not execute query: no connection to the server"
END = "pg_restore: warning: errors ignored on restore: 1"


def test_statements_that_the_server_refused_are_named() -> None:
    assert refused_statements(Finished(0, [])) == []
    assert refused_statements(Finished(1, [REFUSED, "Command was: GRANT", END])) == [REFUSED]


@pytest.mark.parametrize(
    "finished",
    [Finished(-9, []), Finished(1, [REFUSED]), Finished(1, [REFUSED, LOST, END])],
    ids=["killed", "gave up", "lost its connection"],
)
def test_a_program_that_did_not_do_all_of_its_work_is_no_success(finished: Finished) -> None:
    with pytest.raises(Failed, match="pg_restore was interrupted"):
        refused_statements(finished)


def test_a_source_that_cannot_lock_all_its_tables_gets_a_remedy() -> None:
    said = ["pg_dump: error: query failed: ERROR:  out of shared memory"]
    check_dump(Finished(0, said), "the source")
    with pytest.raises(Failed, match="could not read the source") as failed:
        check_dump(Finished(1, said), "the source")
    assert failed.value.details == said[0]
    said.append("HINT:  You might need to increase max_locks_per_transaction.")
    with pytest.raises(Failed, match="cannot lock all tables of the source at once") as failed:
        check_dump(Finished(1, said), "the source")
    assert "Raise max_locks_per_transaction in the source" in failed.value.details


def run(directory: Path, script: str, heard: Callable[[str], None] = lambda _: None) -> Finished:
    account = Account("me", os.geteuid(), os.getegid(), lent=False)
    return Workplace(directory, account).run(["/bin/sh", "-c", script], {}, heard)


def test_of_many_problems_the_first_and_the_last_ones_are_kept(tmp_path: Path) -> None:
    script = f"for n in $(seq 200); do echo '{REFUSED}' >&2; done; echo '{LOST}' >&2; echo '{END}' >&2; exit 1"
    ended = run(tmp_path, script)
    assert len(ended.problems) < 50
    assert list(ended.problems[-2:]) == [LOST, END]


def test_of_a_long_line_only_the_beginning_is_kept_and_it_alone_says_what_the_line_is(tmp_path: Path) -> None:
    """A part from the middle of a line may look like anything."""
    long = f"printf '%020000d' 0 >&2; printf '{REFUSED}' >&2; printf '%020000d\\n' 0 >&2"
    heard: list[str] = []
    ended = run(tmp_path, f"{long}; printf '{REFUSED}' >&2; {long}; echo '{END}' >&2; exit 1", heard.append)
    assert [len(line) for line in heard] == [8192]
    assert [len(line) for line in ended.problems] == [8192, len(END)]
    assert ended.problems[0].startswith(REFUSED)
