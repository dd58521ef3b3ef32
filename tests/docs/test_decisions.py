"""Decisions are numbered, dated and listed."""

import re
from pathlib import Path

DECISIONS = Path(__file__).parents[2] / "docs" / "decisions"


def _decisions() -> list[Path]:
    return sorted(path for path in DECISIONS.glob("*.md") if path.name != "README.md")


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [path.name[:5] for path in _decisions()]
    assert numbers == [f"{number:04d}-" for number in range(1, len(numbers) + 1)]


def test_each_decision_has_a_date_below_its_title() -> None:
    undated = [
        path.name for path in _decisions() if not re.match(r"# .+\n\nDate: \d{4}-\d\d-\d\d\n\n", path.read_text())
    ]
    assert undated == []


def test_the_index_lists_each_decision_by_its_title() -> None:
    titles = {path.name: path.read_text().partition("\n")[0].removeprefix("# ") for path in _decisions()}
    rows = re.findall(
        r"^\| \[(\d{4})\]\((\S+)\) \| (.+?) \| (\S+) \|$", (DECISIONS / "README.md").read_text(), re.MULTILINE
    )
    assert [(number, name, title) for number, name, title, _ in rows] == [
        (name[:4], name, title) for name, title in titles.items()
    ]
    dates = [re.findall(r"^Date: (\S+)$", path.read_text(), re.MULTILINE)[0] for path in _decisions()]
    assert [date for *_, date in rows] == dates
