"""openapi.json, made from the handlers and the schemas: routes by Litestar, schemas by msgspec."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Litestar
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, License, SecurityScheme, Server, Tag
from litestar.types import ControllerRouterHandler

from ramet.api.errors import POLLED, REFUSES
from ramet.api.responses import service_of_path
from ramet.api.schemas.shared import ErrorBody

_DESCRIPTION = (
    "Ramet manages PostgreSQL services on your own machines. "
    "Every error is an ErrorBody. A response with status 202 accepts an operation: poll the service until it is done."
)
_PROVIDED = ("plane", "projects", "event_feed", "waits", "listing")
_TAGS = (
    "Services", "Restore", "Observation", "Operations", "Events", "Audit", "VPCs", "Projects", "Keys",
    "Authentication", "Analytics",
)  # fmt: skip
_EXAMPLES: dict[str, dict[str, Any]] = {
    "Service": {
        "service_id": "d1k5vk7hf2",
        "project_id": "rp1pz7uyae",
        "name": "shop-fork",
        "region_code": "local",
        "service_type": "POSTGRES",
        "created": "2026-01-15T09:00:00.123456Z",
        "paused": False,
        "status": "READY",
        "resources": [{"id": "d1k5vk7hf2", "spec": {"cpu_millis": 500, "memory_gbs": 2, "volume_type": "reflink"}}],
        "metadata": {"environment": "DEV", "fork_strategy": "NOW", "parent_name": "shop"},
        "endpoint": {"host": "localhost", "port": 15433},
        "forked_from": {"project_id": "rp1pz7uyae", "service_id": "a7c2m9x4qe", "is_standby": False},
        "ha_replicas": {"sync_replica_count": 0, "replica_count": 0},
        "read_replica_sets": [],
    },
    "ServiceCreate": {"name": "shop", "replica_count": 0, "cpu_millis": "500", "memory_gbs": "2"},
    "ForkServiceCreate": {
        "fork_strategy": "PITR",
        "target_time": "2026-01-15T10:30:00.25+02:00",
        "name": "shop-before",
    },
    "Logout": {},
    "IdentifyUser": {"properties": {}},
    "TrackEvent": {"event": "service fork", "properties": {}},
}


def _error(description: str, code: str, message: str, details: str = "") -> dict[str, Any]:
    example = {"id": "example", "value": msgspec.to_builtins(ErrorBody(code, message, details))}
    media = {"schema": {"$ref": "#/components/schemas/ErrorBody"}, "examples": {"example": example}}
    return {"description": description, "content": {"application/json": media}}


_ERRORS = {
    400: _error(
        "The request is invalid, or the state of the service does not allow it.",
        "TARGET_TIME_REQUIRED",
        "fork_strategy PITR needs target_time, and it is missing",
        "Send target_time as RFC 3339 with an offset, for example 2026-01-15T10:30:00Z.",
    ),
    401: _error(
        "The API key is missing, unknown, revoked or expired.",
        "UNAUTHORIZED",
        "The API key is unknown, revoked or expired, or its secret is wrong",
    ),
    403: _error(
        "The API key belongs to another project.", "FORBIDDEN", "This API key does not belong to project 'rp1pz7uyae'"
    ),
    404: _error("No such service.", "SERVICE_NOT_FOUND", "no service with that id exists", "service_id 'd1k5vk7hf2'"),
    413: _error("The body is too large.", "BODY_TOO_LARGE", "The body is larger than 1 MiB"),
    415: _error(
        "The body is not JSON.",
        "UNSUPPORTED_MEDIA_TYPE",
        "Unsupported Content-Type 'text/plain': send application/json",
    ),
    500: _error("An internal error.", "INTERNAL", "Internal error; the server's log contains the reason"),
    503: _error("Try again soon; see Retry-After.", "STORE_UNAVAILABLE", "The store cannot be reached now"),
}


def document(resources: Sequence[ControllerRouterHandler], base_path: str, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document; its paths are relative to `base_path`, as generators expect."""
    described = Litestar(
        resources,
        # This application is described, never served, so its dependencies provide nothing.
        dependencies={
            **{name: Provide(lambda: None, sync_to_thread=False) for name in _PROVIDED},
            "at": Provide(service_of_path, sync_to_thread=False),
        },
        openapi_config=_config(version, base_path),
        logging_config=None,
    )
    made = described.openapi_schema.to_schema()
    made["components"]["schemas"] = _schemas(described)
    made["components"]["responses"] = {f"Error{status}": error for status, error in _ERRORS.items()}
    options = {handler.operation_id: handler.opt for handler in _handlers(described)}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            _finish(operation)
            statuses = _error_statuses(path, method, operation, options[operation["operationId"]])
            operation["responses"] |= {str(s): {"$ref": f"#/components/responses/Error{s}"} for s in sorted(statuses)}
    return {"openapi": made.pop("openapi"), **made}


def _config(version: str, base_path: str) -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Ramet",
        version=version,
        description=_DESCRIPTION,
        servers=[Server(url=base_path, description="On the host that serves this document.")],
        license=License(name="Apache-2.0", identifier="Apache-2.0"),
        security=[{"basic": []}, {"bearer": []}],
        components=Components(
            security_schemes={
                "basic": SecurityScheme(type="http", scheme="basic", description="public_key and secret_key."),
                "bearer": SecurityScheme(type="http", scheme="bearer", description="public_key:secret_key."),
            }
        ),
        tags=[Tag(name) for name in _TAGS],
        use_handler_docstrings=True,
        render_plugins=[],
    )


def _handlers(described: Litestar) -> list[HTTPRouteHandler]:
    return [handler for route in described.routes for handler in getattr(route, "route_handlers", ())]


def _error_statuses(path: str, method: str, operation: dict[str, Any], options: dict[str, Any]) -> set[int]:
    """Return the statuses of the errors that an operation may respond with."""
    parameters = operation.get("parameters", [])
    statuses = {401, 500}
    if not options.get(POLLED):
        statuses.add(503)
    if "{project_id}" in path:
        statuses.add(403)
    if path.count("{") > 1:
        statuses.add(404)
    if "requestBody" in operation:
        statuses |= {413, 415}
    if method != "get" or options.get(REFUSES) or any(parameter["in"] != "path" for parameter in parameters):
        statuses.add(400)
    return statuses


def _schemas(described: Litestar) -> dict[str, Any]:
    """Return the schemas of all types in the signatures of handlers, with what msgspec says of them.

    Litestar's own leave out docstrings, deprecations and names for Go.
    """
    types: list[Any] = [ErrorBody]
    for handler in _handlers(described):
        body = handler.parsed_data_field
        types += [returned.annotation for returned in handler.parsed_return_field.inner_types]
        types += [] if body is None else [body.annotation]
        types += [response.data_container for response in (handler.responses or {}).values()]
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    for name, example in _EXAMPLES.items():
        components[name]["examples"] = [example]
    for component in components.values():
        for schema in component.get("properties", {}).values():
            _say_absent(schema)
    return dict(sorted(components.items()))


def _say_absent(schema: dict[str, Any]) -> None:
    """Document a property that is null by default, and therefore never sent as null, as one that may be absent."""
    if schema.get("default", ...) is not None:
        return
    del schema["default"]
    options = [option for option in schema.pop("anyOf", []) if option != {"type": "null"}]
    schema.update(options[0] if len(options) == 1 else {"anyOf": options})


def _finish(operation: dict[str, Any]) -> None:
    """Correct what Litestar cannot know, and remove unset flags and empty bodies."""
    operation.pop("deprecated")
    for parameter in operation.get("parameters", []):
        parameter.pop("deprecated")
        parameter["schema"] = _without_null(parameter["schema"])
    operation["responses"] = {status: each for status, each in operation["responses"].items() if status < "4"}
    for response in operation["responses"].values():
        response.pop("headers", None)
        if response.get("content", {}).get("application/json", {}).get("schema") == {"type": "null"}:
            del response["content"]
    if "requestBody" in operation:
        media = operation["requestBody"]["content"]["application/json"]
        if "oneOf" in media["schema"]:
            media["schema"] = media["schema"]["oneOf"][0]
            operation["requestBody"]["required"] = False


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter, which is absent rather than null, and is described beside its schema."""
    value, *_ = schema.pop("oneOf", [{}])
    return {**value, **{name: part for name, part in schema.items() if name != "description"}}
