"""Comparing schemas that are long: what of them is shown, and that nothing else is compared."""

import pytest

from ramet.workbench.schema import Schema, compare


def _functions(*bodies: str) -> Schema:
    return {("function", f"public.f{number:03}()", "", ""): body for number, body in enumerate(bodies)}


def _body(lines: int, last: str) -> str:
    return "\n".join([*("SELECT 1;" for _ in range(lines - 1)), last])


def test_of_a_definition_with_many_lines_only_their_number_is_given() -> None:
    found, left_out = compare(_functions(_body(2000, "a"), _body(9, "a")), _functions(_body(2500, "b"), "b"), 10)
    long, short = (part for one in found for part in one.parts)
    assert (long.verb, long.before, long.after, list(long.lines), long.unshown_lines) == ("changed", "", "", [], 2500)
    assert [line for line in short.lines if line.startswith("+")] == ["+b"]
    assert left_out == 0
    ((added,),) = (one.parts for one in compare({}, _functions(_body(2001, "a").replace("\n", "\r")), 10)[0])
    assert (added.verb, added.after, added.unshown_lines) == ("added", "", 2001)


def test_lines_that_look_like_the_names_of_files_are_shown() -> None:
    before, after = _functions("BEGIN\n-- old\nEND"), _functions("BEGIN\n++i;\nEND")
    ((part,),) = (one.parts for one in compare(before, after, 10)[0])
    assert list(part.lines) == ["@@ -1,3 +1,3 @@", " BEGIN", "--- old", "+++i;", " END"]


def test_all_differences_together_have_so_much_text_as_a_page_shows() -> None:
    long = "x" * 300_000
    found, _ = compare(_functions("a", long, long, long, long, "b"), _functions(), 10)
    assert [one.parts[0].unshown_lines for one in found] == [0, 0, 0, 0, 1, 0]


def test_only_what_is_shown_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def diff(before: list[str], *_: object, **__: object) -> list[str]:
        compared.append(before[-1])
        return []

    monkeypatch.setattr("difflib.unified_diff", diff)
    before = _functions(*(_body(2, f"a{number}") for number in range(30)))
    after = _functions(*(_body(2, f"b{number}") for number in range(30)))
    found, left_out = compare(before, after, 3)
    assert ([one.name for one in found], left_out) == (["public.f000()", "public.f001()", "public.f002()"], 27)
    assert compared == ["a0", "a1", "a2"]
