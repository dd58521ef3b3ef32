"""Which errors leave open what became of a statement that writes."""

import psycopg
import pytest

from ramet.workbench.statements import unknown_outcome


@pytest.mark.parametrize(
    ("error", "is_unknown"),
    [
        (psycopg.OperationalError("server closed the connection unexpectedly"), True),
        (psycopg.errors.AdminShutdown("terminating connection due to administrator command"), True),
        (psycopg.errors.ConnectionFailure("lost"), True),
        (psycopg.errors.QueryCanceled("canceling statement due to user request"), False),
        (psycopg.errors.UniqueViolation("duplicate key"), False),
        (psycopg.ProgrammingError("COPY cannot be used with this method; use copy() instead"), False),
    ],
)
def test_only_a_lost_session_leaves_it_open(error: psycopg.Error, is_unknown: bool) -> None:
    assert (unknown_outcome(error) is not None) is is_unknown
