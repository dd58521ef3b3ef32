"""`/docs`: everything of openapi.json is on the page, and nothing comes from elsewhere."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from ramet import __version__
from ramet.api.application import openapi_json
from ramet.reference.page import operations_of, reference_router, render, with_code
from ramet.reference.shapes import Type, type_of


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(openapi_json(__version__))
    return found


@cache
def _page() -> str:
    return render(_document())


@pytest.fixture
def client() -> Iterator[TestClient[Litestar]]:
    with TestClient(Litestar([reference_router(_document)], openapi_config=None, logging_config=None)) as client:
        yield client


def _section(name: str) -> str:
    _, found, rest = _page().partition(f'<section class="card" id="{name}"')
    return found + rest.partition("</section>")[0]


def test_every_operation_is_on_the_page_with_its_parameters_statuses_and_body() -> None:
    document, operations = _document(), operations_of(_document())
    assert len(operations) == sum(map(len, document["paths"].values()))
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            section = _section(operation["operationId"])
            assert f'<span class="tag">{method.upper()}</span> <code>{path}</code>' in section, path
            for parameter in operation.get("parameters", ()):
                assert f'<code class="wrap">{parameter["name"]}' in section, (path, parameter["name"])
            for status in operation["responses"]:
                assert f">{status}</" in section, (path, status)
            if "requestBody" in operation:
                assert "<h4>Body</h4>" in section, path


def test_every_schema_is_on_the_page_with_its_fields() -> None:
    for name, schema in _document()["components"]["schemas"].items():
        section = _section(name)
        for field in schema.get("properties", {}):
            assert f'<code class="wrap">{field}</code>' in section, (name, field)


def test_every_link_within_the_page_leads_somewhere() -> None:
    targets = re.findall(r' id="([^"]+)"', _page())
    assert len(targets) == len(set(targets))
    assert set(re.findall(r'href="#([^"]+)"', _page())) <= set(targets)


def test_the_page_has_no_script_and_loads_nothing_from_elsewhere() -> None:
    assert "<script" not in _page()
    assert " style=" not in _page()
    assert [
        one for one in re.findall(r'(?:src|href)="([^"]+)"', _page()) if one[0] not in "/#" or one[:2] == "//"
    ] == []


def test_the_page_needs_no_key_and_has_the_policy_of_the_console(client: TestClient[Litestar]) -> None:
    answer = client.get("/docs")
    assert (answer.status_code, answer.text) == (200, _page())
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    asked = client.head("/docs")
    assert (asked.status_code, asked.content) == (200, b"")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$ref": "#/components/schemas/Service"}, Type("Service", "Service")),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Key"}}, Type("array of Key", "Key")),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, Type("string or integer")),
        ({"type": "object", "additionalProperties": {"type": "string"}}, Type("object of string")),
        ({"type": "object", "additionalProperties": False}, Type("object")),
        ({"type": "string", "format": "date-time"}, Type("string (date-time)")),
        ({}, Type("any value")),
    ],
)
def test_types_read_as_words(schema: dict[str, Any], expected: Type) -> None:
    assert type_of(schema) == expected


def test_what_stands_between_backquotes_is_code_and_nothing_else_is_markup() -> None:
    assert with_code("Send `<name>` & wait") == "Send <code>&lt;name&gt;</code> &amp; wait"
