"""What schemathesis makes of openapi.json finds no fault and no answer that the document does not describe."""

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ramet import __version__
from ramet.api.application import openapi_json
from ramet.endpoints import BASE_PATH
from tests.api.test_openapi import CHECKED_IN
from tests.api.world import World, open_world

_METHODS = ("get", "put", "post", "patch", "delete")
_CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
_HARMLESS = ("forkService", "getService")
"""Operations that leave the service they are about as it is."""


def _operations() -> list[str]:
    """Return the method and the path of each documented operation."""
    paths = msgspec.json.decode(CHECKED_IN.read_bytes())["paths"]
    return [f"{method.upper()} {path}" for path, item in paths.items() for method in item if method in _METHODS]


@pytest.fixture(scope="module")
def inhabited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with one service that every request of the test leaves READY."""
    for world in open_world(tmp_path_factory.mktemp("schemathesis")):
        world.ready()
        yield world


@pytest.fixture(scope="module")
def schema() -> BaseSchema:
    return schemathesis.openapi.from_dict(msgspec.json.decode(openapi_json(__version__)))


@pytest.fixture(params=_operations())
def operation(request: pytest.FixtureRequest, schema: BaseSchema) -> APIOperation[Any, Any, Any, Any]:
    method, path = request.param.split(" ")
    return schema[path][method]


@pytest.mark.slow
def test_documented_operations_answer_as_documented(
    operation: APIOperation[Any, Any, Any, Any], inhabited: World
) -> None:
    """Generate the cases here: `parametrize` would generate those of all operations in each worker of pytest."""

    @settings(
        max_examples=10,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def is_answered_as_documented(case: schemathesis.Case[Any]) -> None:
        if "project_id" in case.path_parameters:
            case.path_parameters["project_id"] = inhabited.tenant.project.id
        if case.operation.definition.raw["operationId"] in _HARMLESS:
            case.path_parameters["service_id"] = inhabited.listed()[0]["service_id"]
        answer = _send(inhabited, case.as_transport_kwargs(base_url=f"http://testserver.local{BASE_PATH}"))
        case.validate_response(answer, checks=_CHECKS)
        body = case.meta.components.get(ParameterLocation.BODY) if case.meta else None
        if body is not None and body.mode is GenerationMode.NEGATIVE and not _holds_null(case.body):
            assert 400 <= answer.status_code < 500, answer.text

    config = HypothesisTestConfig(operation.schema.config, list(HypothesisTestMode))
    create_test(operation=operation, test_func=is_answered_as_documented, config=config)()


def _holds_null(body: Any) -> bool:
    """Tell whether a body holds a null, which is no value: what remains without it may be sound."""
    return isinstance(body, dict) and None in body.values()


def _send(world: World, request: dict[str, Any]) -> httpx.Response:
    headers = {name: value.encode("latin-1") for name, value in request["headers"].items()}
    body = {"json": request["json"]} if "json" in request else {"content": request.get("data")}
    return world.client.request(
        request["method"],
        request["url"],
        params=request["params"],
        headers=headers,
        auth=world.tenant.credentials,
        **body,
    )
