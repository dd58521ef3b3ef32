"""An answer to an agent has so many characters, whatever it is of."""

import json

from ramet.kits.mcp.space import MOST_CHARACTERS, within_limits


def test_a_list_ends_where_the_answer_is_full_and_what_to_do_is_said() -> None:
    found = within_limits({"services": [{"name": "x" * 99, "port": 5432} for _ in range(10_000)]}, "ask for less.")
    assert 0.5 * MOST_CHARACTERS < len(json.dumps(found)) < 1.5 * MOST_CHARACTERS
    assert found["truncated"] == "There is more than the 200,000 characters that an answer has: ask for less."


def test_what_fits_is_as_it_was() -> None:
    answer = {"name": "shop", "gaps": [], "labels": {"pr": "42"}, "sizes": [1, None, True, 0.5]}
    assert within_limits(answer, "ask for less.") == answer


def test_a_long_text_is_cut_and_its_length_is_said() -> None:
    assert within_limits({"definition": "x" * 20_000}, "") == {"definition": "x" * 10_000 + "… (20000 characters)"}
