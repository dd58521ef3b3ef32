"""The page and its route: it is rendered once, from openapi.json as it is served."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import MediaType, Response, Router, route
from litestar.config.compression import CompressionConfig
from litestar.enums import HttpMethod
from litestar.middleware import DefineMiddleware
from litestar.middleware.compression import CompressionMiddleware
from markupsafe import Markup, escape

from ramet.console.rendering import HEADERS
from ramet.console.static_files import asset_path
from ramet.model.rights import Role, allows
from ramet.reference.shapes import Field, Type, described, enumerated, fields_of, parameter, type_of

PATH = "/docs"
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Body:
    """What a request or a response carries: for a response with its status and what that means."""

    type: Type | None
    example: str = ""
    status: str = ""
    description: str = ""


@dataclass(frozen=True)
class Operation:
    """One operation of the interface."""

    id: str
    tag: str
    method: str
    path: str
    summary: str
    description: str
    roles: Sequence[Role]
    parameters: Sequence[Field]
    body: Body | None
    responses: Sequence[Body]
    errors: Sequence[str]


def reference_router(document: Callable[[], Document]) -> Router:
    """Return the route of the page; `document` returns openapi.json, and is called when the page is first read."""
    rendered = cache(lambda: render(document()))

    @route("/", http_method=[HttpMethod.GET, HttpMethod.HEAD], sync_to_thread=True, include_in_schema=False)
    def reference() -> Response[str]:
        """Return the interface for people to read."""
        return Response(rendered(), media_type=MediaType.HTML, headers=dict(HEADERS))

    compression = DefineMiddleware(CompressionMiddleware, config=CompressionConfig("gzip"))
    return Router(PATH, route_handlers=[reference], middleware=[compression])


def render(document: Document) -> str:
    """Return the page of a document."""
    found = operations_of(document)
    template = _environment().get_template("reference.html")
    return template.render(
        info=document["info"],
        base=document["servers"][0]["url"],
        by_tag={tag: [one for one in found if one.tag == tag] for tag in dict.fromkeys(one.tag for one in found)},
        errors=[(name.removeprefix("Error"), one) for name, one in document["components"]["responses"].items()],
        schemas=document["components"]["schemas"],
    )


def operations_of(document: Document) -> list[Operation]:
    """Return all operations, by tag in the order of the document's tags, and of its paths within a tag."""
    tags = [tag["name"] for tag in document.get("tags", ())]
    found = [
        _operation(document, method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    return sorted(found, key=lambda one: tags.index(one.tag) if one.tag in tags else len(tags))


def _operation(document: Document, method: str, path: str, found: Mapping[str, Any]) -> Operation:
    name, responses = found["operationId"], found["responses"]
    return Operation(
        name,
        found["tags"][0],
        method.upper(),
        path,
        found.get("summary", ""),
        found.get("description", ""),
        [role for role in Role if allows(role, name)],
        [parameter(one) for one in found.get("parameters", ())],
        _body(document, found["requestBody"]) if "requestBody" in found else None,
        [_body(document, one, status) for status, one in responses.items() if "$ref" not in one],
        [status for status, one in responses.items() if "$ref" in one],
    )


def _body(document: Document, found: Mapping[str, Any], status: str = "") -> Body:
    schema = found.get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        return Body(None, "", status, found.get("description", ""))
    named = type_of(schema)
    return Body(named, "" if status else _example(document, named), status, found.get("description", ""))


def _example(document: Document, named: Type) -> str:
    examples = document["components"]["schemas"].get(named.refers_to, {}).get("examples", ())
    return json.dumps(examples[0], indent=2) if examples and examples[0] else ""


def with_code(text: str) -> Markup:
    """Return a text in which what stands between backquotes is code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part)
        for number, part in enumerate(text.split("`"))
    )


def _environment() -> Environment:
    loader = FileSystemLoader(str(files("ramet.reference").joinpath("templates")))
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(with_code=with_code)
    environment.globals.update(
        asset=asset_path, fields_of=fields_of, described=described, enumerated=enumerated, type_of=type_of
    )
    return environment
