"""No constant of a statement is shown, whatever surrounds it."""

import pytest

from ramet.model.statement_text import without_literals


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT * FROM t WHERE a = $1 AND b = 2", "SELECT * FROM t WHERE a = $1 AND b = 2"),
        ("ALTER ROLE app PASSWORD 'hunter''2' VALID UNTIL 'x'", "ALTER ROLE app PASSWORD '***' VALID UNTIL '…'"),
        ("SELECT 'hunter2", "SELECT '…'"),
        (r"SELECT E'a\'hunter2', 1", "SELECT '…', 1"),
        (r"SELECT 'a\', 'hunter2'", "SELECT …"),
        (r"SELECT date'a\', 'hunter2'", "SELECT date…"),
        ("SELECT $$hunter2$$, $a$ it's $$ hunter2 $a$, 3", "SELECT '…', '…', 3"),
        ("SELECT $a$ hunter2 $$", "SELECT '…'"),
        ("SELECT 1 -- it's hunter2\n, 'hunter2', 2", "SELECT 1 \n, '…', 2"),
        ("SELECT /* it's */ 'hunter2', 2", "SELECT  '…', 2"),
        ("SELECT 1 /* a /* b */ it's */, 'hunter2'", "SELECT 1 …"),
        ("""SELECT "it's", 'hunter2', "b""'" """, """SELECT "it's", '…', "b""'\""""),
        ("SELECT a$b$c, 'hunter2'", "SELECT a$b$c, '…'"),
    ],
)
def test_constants_are_masked(text: str, shown: str) -> None:
    assert without_literals(text) == shown


@pytest.mark.parametrize("end", range(1, 70))
def test_a_statement_that_is_cut_off_shows_no_more(end: int) -> None:
    text = "SELECT 'hunter2' /* hunter2 */, E'hunter2', $x$hunter2$x$ -- hunter2"
    assert "hunt" not in without_literals(text[:end])
