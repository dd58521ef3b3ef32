"""Errors of forms: the field that each belongs to, and that each code is raised."""

import re
from pathlib import Path

import pytest

import ramet
from ramet.console.views import forms
from ramet.errors import Invalid
from tests.console.visitor import Visitor

SOURCES = Path(ramet.__file__).parent


def _raised_codes() -> set[str]:
    """Return the codes that the code under src gives to errors, those of `parse_timestamp` by field."""
    texts = [path.read_text() for path in SOURCES.rglob("*.py") if path != Path(forms.__file__)]
    texts.append(Path(forms.__file__).read_text().partition("class InvalidField")[2])
    code = re.compile(r'[A-Za-z]+\(\s*"([A-Z][A-Z_]+)",')
    field = re.compile(r'parse_timestamp\("(\w+)"')
    literal = {found for text in texts for found in code.findall(text)}
    return literal | {f"INVALID_{found.upper()}" for text in texts for found in field.findall(text)}


def test_every_error_code_that_a_form_maps_is_raised() -> None:
    known = {*forms._FIELDS, *forms._SENTENCES}
    assert known - _raised_codes() == set()


def test_a_missing_extension_is_reported_at_the_type(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise Invalid("EXTENSION_MISSING", "A VECTOR service needs the extension vector", "Install pgvector.")

    visitor.sign_in()
    monkeypatch.setattr(visitor.world.backend.host, "default_pg_major", missing)
    answer = visitor.send("/console/new", name="shop", service_type="VECTOR", size="shared", environment="DEV")
    assert answer.status_code == 422
    above, _, rest = answer.text.partition("<fieldset>")
    assert "Install pgvector." in rest.partition("</fieldset>")[0]
    assert "Install pgvector." not in above
