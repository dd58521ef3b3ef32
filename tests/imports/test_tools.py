"""What is concluded from how a program of PostgreSQL ended, and from what it said."""

import os
from pathlib import Path

import pytest

from ramet.backends.local.host.system_user import Account
from ramet.backends.local.sources.tools import Finished, Workplace, refused_statements
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


def test_of_many_problems_the_first_and_the_last_ones_are_kept(tmp_path: Path) -> None:
    script = f"for n in $(seq 200); do echo '{REFUSED}' >&2; done; echo '{LOST}' >&2; echo '{END}' >&2; exit 1"
    account = Account("me", os.geteuid(), os.getegid(), lent=False)
    ended = Workplace(tmp_path, account).run(["/bin/sh", "-c", script], {})
    assert len(ended.problems) < 50
    assert list(ended.problems[-2:]) == [LOST, END]
