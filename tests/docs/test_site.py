"""The pages lead to each other, and every page is in the navigation; `script/docs` makes the site from them."""

import posixpath
import re

import pytest

from tests.docs import errors
from tests.docs.pages import ROOT, anchors, links, pages

MAP = "docs/README.md"


def _broken(page: str) -> list[str]:
    return [target for target in links(page) if not re.match(r"https?:|mailto:", target) and not _leads(page, target)]


def _leads(page: str, target: str) -> bool:
    path, _, anchor = target.partition("#")
    there = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    return (ROOT / there).exists() and (not anchor or anchor in anchors(there))


@pytest.mark.parametrize("page", pages())
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    assert _broken(page) == []


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"^- \[.+?\]\(([^)#]+\.md)(?:#\S*)?\)", (ROOT / MAP).read_text(), re.MULTILINE)
    found = [posixpath.normpath(posixpath.join("docs", path)) for path in listed]
    decisions = [page for page in pages() if page.startswith("docs/decisions/0")]  # their own index lists them
    assert sorted(found) == sorted(set(pages()) - {MAP, *decisions})


def test_the_page_of_error_codes_is_the_one_that_the_code_makes() -> None:
    assert errors.PAGE.read_text() == errors.page(), "run script/reference"


def test_every_code_is_explained() -> None:
    assert len(errors.codes()) > 250
    assert errors.codes() - set(errors.entries()) == set()


def test_a_code_whose_constant_another_module_has_is_explained() -> None:
    assert [text for text, _ in errors.entries()["ARCHIVE_BUSY"].texts if "Other work uses the archive" in text] != []
