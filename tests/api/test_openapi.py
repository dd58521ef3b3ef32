"""openapi.json: made from the code, checked in, served, and complete."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ramet import __version__
from ramet.api.application import openapi_json
from ramet.api.schemas.account import IdentifyUser, Logout, TrackEvent
from ramet.api.schemas.forks import ForkServiceCreate
from ramet.api.schemas.service_bodies import ServiceCreate
from ramet.api.schemas.services import Service
from ramet.api.schemas.shared import ErrorBody
from ramet.endpoints import BASE_PATH
from tests.api.world import World, bodies

CHECKED_IN = Path(__file__).parents[2] / "openapi.json"
EXEMPLIFIED = {
    struct.__name__: struct for struct in (Service, ServiceCreate, ForkServiceCreate, Logout, IdentifyUser, TrackEvent)
}
OPERATIONS = {
    ("get", "/projects/{project_id}/services"): ("getServices", "200"),
    ("post", "/projects/{project_id}/services"): ("createService", "202"),
    ("get", "/projects/{project_id}/services/{service_id}"): ("getService", "200"),
    ("delete", "/projects/{project_id}/services/{service_id}"): ("deleteService", "202"),
    ("post", "/projects/{project_id}/services/{service_id}/start"): ("startService", "202"),
    ("post", "/projects/{project_id}/services/{service_id}/stop"): ("stopService", "202"),
    ("post", "/projects/{project_id}/services/{service_id}/forkService"): ("forkService", "202"),
    ("get", "/projects/{project_id}/services/{service_id}/restoreWindow"): ("getRestoreWindow", "200"),
    ("put", "/projects/{project_id}/services/{service_id}/restoreSettings"): ("updateRestoreSettings", "200"),
    ("get", "/projects/{project_id}/services/{service_id}/snapshots"): ("getSnapshots", "200"),
    ("post", "/projects/{project_id}/services/{service_id}/snapshots"): ("createSnapshot", "202"),
    ("delete", "/projects/{project_id}/services/{service_id}/snapshots/{snapshot_id}"): ("deleteSnapshot", "202"),
    ("post", "/projects/{project_id}/services/{service_id}/rename"): ("renameService", "200"),
    ("post", "/projects/{project_id}/services/{service_id}/resize"): ("resizeService", "202"),
    ("post", "/projects/{project_id}/services/{service_id}/optimize"): ("optimizeService", "202"),
    ("post", "/projects/{project_id}/services/{service_id}/updateExtensions"): ("updateExtensions", "200"),
    ("post", "/projects/{project_id}/services/{service_id}/updatePassword"): ("updatePassword", "204"),
    ("post", "/projects/{project_id}/services/{service_id}/setEnvironment"): ("setEnvironment", "200"),
    ("post", "/projects/{project_id}/services/{service_id}/setHA"): ("setHAReplica", "202"),
    ("post", "/projects/{project_id}/services/{service_id}/attachToVPC"): ("attachServiceToVPC", "202"),
    ("post", "/projects/{project_id}/services/{service_id}/detachFromVPC"): ("detachServiceFromVPC", "202"),
    ("get", "/projects/{project_id}/services/{service_id}/logs"): ("getServiceLogs", "200"),
    ("get", "/projects/{project_id}/services/{service_id}/metrics/available-series"): (
        "getServiceMetricsAvailableSeries",
        "200",
    ),
    ("post", "/projects/{project_id}/services/{service_id}/metrics/series"): ("getServiceMetricsSeries", "200"),
    ("get", "/projects/{project_id}/operations"): ("getOperations", "200"),
    ("get", "/projects/{project_id}/services/{service_id}/operations"): ("getServiceOperations", "200"),
    ("get", "/projects/{project_id}/vpcs"): ("getVPCs", "200"),
    ("post", "/projects/{project_id}/vpcs"): ("createVPC", "201"),
    ("get", "/projects/{project_id}/vpcs/{vpc_id}"): ("getVPC", "200"),
    ("delete", "/projects/{project_id}/vpcs/{vpc_id}"): ("deleteVPC", "204"),
    ("post", "/projects/{project_id}/vpcs/{vpc_id}/rename"): ("renameVPC", "200"),
    ("get", "/projects/{project_id}/vpcs/{vpc_id}/peerings"): ("getVPCPeerings", "200"),
    ("post", "/projects/{project_id}/vpcs/{vpc_id}/peerings"): ("createVPCPeering", "201"),
    ("get", "/projects/{project_id}/vpcs/{vpc_id}/peerings/{peering_id}"): ("getVPCPeering", "200"),
    ("delete", "/projects/{project_id}/vpcs/{vpc_id}/peerings/{peering_id}"): ("deleteVPCPeering", "204"),
    ("get", "/projects/{project_id}/services/{service_id}/forkReport"): ("getForkReport", "200"),
    ("get", "/projects"): ("getProjects", "200"),
    ("get", "/auth/info"): ("getAuthInfo", "200"),
    ("post", "/auth/logout"): ("logout", "204"),
    ("post", "/analytics/identify"): ("identifyUser", "200"),
    ("post", "/analytics/track"): ("trackEvent", "200"),
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return dict(msgspec.json.decode(openapi_json(__version__)))


def test_the_document_checked_in_is_the_one_that_the_code_makes() -> None:
    assert CHECKED_IN.read_bytes() == openapi_json(__version__), "run script/openapi"


def test_the_document_is_served_to_everybody(world: World) -> None:
    answer = world.client.get(f"{BASE_PATH}/openapi.json")
    assert answer.status_code == 200
    assert answer.json()["openapi"].startswith("3.1")


def test_every_operation_has_its_known_id_and_status(document: dict[str, Any]) -> None:
    found = {
        (method, path): (operation["operationId"], next(iter(operation["responses"])))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert found.items() >= OPERATIONS.items()


def test_paths_begin_after_the_server(document: dict[str, Any]) -> None:
    assert all(server["url"].endswith(BASE_PATH) for server in document["servers"])
    assert not any(path.startswith(BASE_PATH) for path in document["paths"])


def test_every_parameter_has_a_type_and_bounds(document: dict[str, Any]) -> None:
    for methods in document["paths"].values():
        for parameter in [one for operation in methods.values() for one in operation.get("parameters", [])]:
            schema = parameter["schema"]
            assert isinstance(schema["type"], str), parameter
            assert schema["type"] == "boolean" or schema.keys() - {"type", "default", "items"}, parameter


def test_names_that_differ_by_their_spelling_alone_have_names_of_their_own_in_go(document: dict[str, Any]) -> None:
    for schema in document["components"]["schemas"].values():
        names = [
            part.get("x-go-name", name).replace("_", "").lower() for name, part in schema.get("properties", {}).items()
        ]
        assert len(names) == len(set(names)), names


def test_every_error_has_the_one_shape(document: dict[str, Any]) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            errors = {status: body for status, body in operation["responses"].items() if status >= "4"}
            assert {"401", "500"} <= errors.keys()
            assert all(body == {"$ref": f"#/components/responses/Error{status}"} for status, body in errors.items())
    for response in document["components"]["responses"].values():
        media = response["content"]["application/json"]
        assert media["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
        msgspec.convert(media["examples"]["example"]["value"], ErrorBody)


def test_the_polled_operation_announces_no_503(document: dict[str, Any]) -> None:
    polled = document["paths"]["/projects/{project_id}/services/{service_id}"]["get"]
    assert "503" not in polled["responses"]


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    references = list(_references(document))
    assert references
    for reference in references:
        at: Any = document
        for part in reference.removeprefix("#/").split("/"):
            at = at[part]


def test_every_example_fits_its_schema(document: dict[str, Any]) -> None:
    examples = {
        name: schema["examples"] for name, schema in document["components"]["schemas"].items() if "examples" in schema
    }
    assert examples.keys() >= {"Service", "ServiceCreate", "ForkServiceCreate"}
    for name, values in examples.items():
        for value in values:
            msgspec.convert(value, EXEMPLIFIED[name])


def test_every_request_field_says_what_it_takes() -> None:
    structs = bodies()
    assert len(structs) > 10
    for struct in structs:
        _, components = msgspec.json.schema_components([struct])
        for schema in components[struct.__name__]["properties"].values():
            assert any("description" in option for option in (schema, *schema.get("anyOf", ())))


def _references(node: Any) -> Any:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from _references(part)
