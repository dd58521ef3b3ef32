"""openapi.json, made from the handlers and the wire structs: routes by Litestar, schemas by msgspec."""

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Litestar
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, License, SecurityScheme, Server, Tag
from litestar.types import ControllerRouterHandler

_DESCRIPTION = (
    "Ramet manages PostgreSQL services on machines of your own; its first verb is fork. "
    "Every error has one shape. An answer with status 202 accepts work that goes on: poll the service to see its end."
)
_TAGS = (
    "Services", "Restore", "Observation", "Operations", "VPCs", "Projects", "Authentication", "Analytics",
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


def document(resources: Sequence[ControllerRouterHandler], base_path: str, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these resources; its paths begin after `base_path`, as generators expect."""
    described = Litestar(
        resources,
        # This application is described, never served, so its dependencies provide nothing.
        dependencies={name: Provide(lambda: None, sync_to_thread=False) for name in ("plane", "projects")},
        openapi_config=_config(version, base_path),
        logging_config=None,
    )
    made = described.openapi_schema.to_schema()
    made["components"]["schemas"] = _schemas(described)
    made["components"]["responses"] = _shared_errors(_operations(made))
    for operation in _operations(made):
        _finish(operation)
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


def _schemas(described: Litestar) -> dict[str, Any]:
    """Return the schemas of all types in the signatures of handlers, with what msgspec says of them.

    Litestar's own leave out docstrings, deprecations and names for Go.
    """
    types: list[Any] = []
    for handler in [handler for route in described.routes for handler in getattr(route, "route_handlers", ())]:
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
    """Turn a property that is null by default, so never sent as null, into one that may be absent."""
    if schema.get("default", ...) is not None:
        return
    del schema["default"]
    options = [option for option in schema.pop("anyOf", []) if option != {"type": "null"}]
    schema.update(options[0] if len(options) == 1 else {"anyOf": options})


def _operations(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in made["paths"].values() for operation in path.values()]


def _shared_errors(operations: list[dict[str, Any]]) -> dict[str, Any]:
    """Move the error answers, equal everywhere, to one place; return it."""
    shared: dict[str, Any] = {}
    for operation in operations:
        responses = operation["responses"]
        for status in [status for status in responses if status >= "4"]:
            if _is_ours(responses[status]):
                shared[f"Error{status}"] = responses[status]
                responses[status] = {"$ref": f"#/components/responses/Error{status}"}
            else:
                del responses[status]
    return dict(sorted(shared.items()))


def _is_ours(response: dict[str, Any]) -> bool:
    """Tell an error that a handler declares from the one that the framework adds."""
    return "$ref" in response["content"]["application/json"]["schema"]


def _finish(operation: dict[str, Any]) -> None:
    """Put right what the framework cannot know, and leave out what says nothing: flags unset, empty bodies."""
    operation.pop("deprecated")
    for parameter in operation.get("parameters", []):
        parameter.pop("deprecated")
        parameter["schema"] = _without_null(parameter["schema"])
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
