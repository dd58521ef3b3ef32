"""docs/cli.md is what the code says."""

from pathlib import Path

from ramet.cli.commands import cli
from ramet.cli.reference import commands, reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run script/reference"


def test_every_command_is_on_the_page_and_each_short_form_with_the_whole_one() -> None:
    page = reference()
    found = [" ".join(path) for path, _ in commands(cli)]
    assert "ramet service fork" in found
    missing = [words for words in found if f"## {words}\n" not in page]
    assert missing == ["ramet fork", "ramet ls", "ramet psql", "ramet wait"]
    assert [words for words in missing if f"`{words}` for `ramet " not in page] == []
