"""Whatever a client sends wrong gets a 4xx in the one shape, with field, value and remedy, and changes nothing."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ramet.api.schemas.shared import Body
from ramet.endpoints import BASE_PATH
from tests.api.world import JsonObject, World, bodies, open_world

NOW = {"fork_strategy": "NOW"}
BAD_SIZES = [
    {"cpu_millis": "-500", "memory_gbs": "2"},
    {"cpu_millis": "0", "memory_gbs": "2"},
    {"cpu_millis": "500.5", "memory_gbs": "2"},
    {"cpu_millis": "500", "memory_gbs": "two"},
    {"cpu_millis": "", "memory_gbs": "2"},
    {"cpu_millis": "٥٠٠", "memory_gbs": "2"},
    {"cpu_millis": "shared", "memory_gbs": "2"},
    {"cpu_millis": "500"},
    {"cpu_millis": "99999000", "memory_gbs": "2"},
    {"cpu_millis": "500", "memory_gbs": "99999"},
    {"cpu_millis": -500, "memory_gbs": 2},
    {"cpu_millis": 10**300, "memory_gbs": 2},
]
WRONG_VALUES: list[JsonObject] = [
    {"name": ""},
    {"name": "   "},
    {"name": "x" * 129},
    {"name": "line\nbreak"},
    {"name": 5},
    {"name": ["x"]},
    {"cpu_millis": 500.5, "memory_gbs": 2},
    {"cpu_millis": True, "memory_gbs": 2},
    {"cpu_millis": {"amount": 1}, "memory_gbs": 2},
    {"cpu_millis": None, "memory_gbs": "2"},
    {"environment_tag": "STAGING"},
    {"environment_tag": 1},
    {"colour": "red"},
]
WRONG_FORKS: list[JsonObject] = [
    {},
    {"fork_strategy": None},
    {"fork_strategy": "now"},
    {"fork_strategy": "LATEST"},
    {"fork_strategy": 1},
    {"fork_strategy": "PITR"},
    {"fork_strategy": "PITR", "target_time": 1700000000},
    {"fork_strategy": "PITR", "target_time": "yesterday"},
    {"fork_strategy": "PITR", "target_time": "2026-02-30T00:00:00Z"},
    {"fork_strategy": "PITR", "target_time": "2026-01-15T10:30:00"},
    {"fork_strategy": "PITR", "target_time": "2026-01-15"},
    {"fork_strategy": "PITR", "target_time": "9999-12-31T23:59:59.999999-23:59"},
    {"fork_strategy": "PITR", "target_time": "0001-01-01T00:00:00+23:59"},
    {"fork_strategy": "PITR", "target_time": "2001-01-01T00:00:00Z"},
    {"fork_strategy": "PITR", "target_time": "2026-01-15T10:30:00+99:00"},
    {"fork_strategy": "LAST_SNAPSHOT", "target_time": "2026-01-15T10:30:00Z"},
]
WRONG_CREATES: list[JsonObject] = [
    {"name": None},
    {},
    {"name": "x", "replica_count": 1},
    {"name": "x", "replica_count": -1},
    {"name": "x", "replica_count": "0"},
    {"name": "x", "region_code": "eu-central-1"},
    {"name": "x", "addons": ["maps"]},
    {"name": "x", "addons": "ai"},
    {"name": "x", "addons": [1]},
    {"name": "x", "service_type": "MYSQL"},
    {"name": "x", "service_type": "POSTGRES", "addons": ["ai"]},
    {"name": "x", "fork_strategy": "NOW"},
]
NOT_JSON = [
    b"",
    b"null",
    b"[]",
    b'"x"',
    b"{",
    b'{"fork_strategy": NOW}',
    b"\xff\xfe{}",
    b'{"name": "\\ud800"}',
    b'{"name": "\xed\xa0\x80"}',
    b'{"a":' * 100_000,
    b'{"cpu_millis": ' + b"9" * 5000 + b"}",
    b'{"cpu_millis": 1e999}',
    b'{"fork_strategy": "NOW"} x',
]


class Unchanged:
    """A world with one READY service, and a check that refusals leave it as it is."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.parent = world.ready()["service_id"]
        self.before = world.listed()

    @property
    def targets(self) -> dict[str, str]:
        return {"create": self.world.services_path, "fork": self.world.path(self.parent, "forkService")}

    def refused(self, answer: httpx.Response, *statuses: int) -> JsonObject:
        """Check that it is a refusal in the one shape that changed nothing; return it."""
        assert answer.status_code in (statuses or (400,)), answer.text
        assert "json" in answer.headers["content-type"]
        body = dict(answer.json())
        assert body.keys() - {"details"} == {"code", "message"}
        assert body["code"].replace("_", "").isalpha()
        assert body["code"].isupper()
        assert len(body["message"]) > 10
        assert "Traceback" not in answer.text
        assert self.world.listed() == self.before
        return body


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unchanged]:
    folder: Path = tmp_path_factory.mktemp("refusals")
    for world in open_world(folder):
        yield Unchanged(world)


@pytest.mark.parametrize("fields", [*BAD_SIZES, *WRONG_VALUES], ids=str)
@pytest.mark.parametrize("verb", ["create", "fork"])
def test_a_wrong_value_is_refused_with_its_field(shop: Unchanged, verb: str, fields: JsonObject) -> None:
    sound = {"name": "x"} if verb == "create" else NOW
    body = shop.refused(shop.world.post(shop.targets[verb], {**sound, **fields}))
    assert any(field in body["message"] for field in fields)


@pytest.mark.parametrize("fields", WRONG_FORKS, ids=str)
def test_a_wrong_fork_is_refused(shop: Unchanged, fields: JsonObject) -> None:
    body = shop.refused(shop.world.post(shop.targets["fork"], fields))
    assert "fork_strategy" in body["message"] or "target_time" in body["message"]
    assert body["details"]


@pytest.mark.parametrize("fields", WRONG_CREATES, ids=str)
def test_a_wrong_create_is_refused(shop: Unchanged, fields: JsonObject) -> None:
    body = shop.refused(shop.world.post(shop.targets["create"], fields))
    assert body["details"]


@pytest.mark.parametrize("raw", NOT_JSON, ids=lambda raw: repr(raw[:24]))
@pytest.mark.parametrize("verb", ["create", "fork"])
def test_a_body_that_is_no_json_object_is_refused(shop: Unchanged, verb: str, raw: bytes) -> None:
    answer = shop.world.post(shop.targets[verb], content=raw, headers={"Content-Type": "application/json"})
    assert shop.refused(answer)["code"] == "INVALID_JSON"


def test_all_fields_at_fault_are_shown_but_never_a_page_of_them(shop: Unchanged) -> None:
    fields = {"f" * 500 + str(n): 1 for n in range(50)}
    body = shop.refused(shop.world.post(shop.targets["fork"], {**NOW, **fields}))
    assert "and 42 more" in body["message"]
    assert len(body["message"]) < 1000


def test_the_window_is_in_the_answer_to_a_target_outside_of_it(shop: Unchanged) -> None:
    target = {"fork_strategy": "PITR", "target_time": "2001-01-01T00:00:00Z"}
    assert "which reaches from 20" in shop.refused(shop.world.post(shop.targets["fork"], target))["message"]


@pytest.mark.parametrize("verb", ["create", "fork"])
def test_a_body_over_one_mebibyte_is_refused(shop: Unchanged, verb: str) -> None:
    large = json.dumps({"name": "x" * (1024 * 1024)}).encode()
    for content in (large, iter([large])):
        answer = shop.world.post(shop.targets[verb], content=content, headers={"Content-Type": "application/json"})
        assert shop.refused(answer, 413)["code"] == "BODY_TOO_LARGE"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json"])
def test_a_body_of_another_media_type_is_refused(shop: Unchanged, kind: str) -> None:
    answer = shop.world.post(shop.targets["fork"], content=json.dumps(NOW), headers={"Content-Type": kind})
    assert kind in shop.refused(answer, 415)["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "projects/{project}/services", {"GET", "POST"}),
        ("PATCH", "projects/{project}/services/{service}", {"GET", "DELETE"}),
        ("GET", "projects/{project}/services/{service}/forkService", {"POST"}),
        ("DELETE", "projects", {"GET"}),
    ],
)
def test_a_wrong_method_is_a_405_that_names_the_right_ones(
    shop: Unchanged, method: str, path: str, allowed: set[str]
) -> None:
    url = f"{BASE_PATH}/{path.format(project=shop.world.tenant.project.id, service=shop.parent)}"
    answer = shop.world.client.request(method, url, auth=shop.world.tenant.credentials)
    assert shop.refused(answer, 405)["code"] == "METHOD_NOT_ALLOWED"
    assert allowed <= {name.strip() for name in answer.headers["allow"].split(",")}
    assert answer.headers["allow"] in answer.json()["details"]


@pytest.mark.parametrize(
    "path", ["/", "/public", f"{BASE_PATH}/nothing", f"{BASE_PATH}/projects/x", "/%00", "/a" * 2000]
)
def test_an_unknown_endpoint_is_a_404_with_an_error_body(shop: Unchanged, path: str) -> None:
    assert shop.refused(shop.world.get(path), 404)["code"] == "NOT_FOUND"


def test_no_free_port_and_no_room_are_refused(shop: Unchanged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(shop.world.backend.host), "port_is_free", lambda *_: False)
    for verb, body in (("create", {"name": "x"}), ("fork", NOW)):
        assert shop.refused(shop.world.post(shop.targets[verb], body))["code"] == "NO_FREE_PORT"


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "tab\tbed", "schlüssel"])
def test_an_unusable_idempotency_key_is_refused(shop: Unchanged, key: str) -> None:
    for verb, body in (("create", {"name": "x"}), ("fork", NOW)):
        answer = shop.world.post(shop.targets[verb], body, headers={b"Idempotency-Key": key.encode()})
        assert shop.refused(answer)["code"] == "INVALID_IDEMPOTENCY_KEY"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = st.sampled_from(
    ["name", "cpu_millis", "memory_gbs", "fork_strategy", "target_time", "environment_tag", "addons", "region_code"]
)


_DOCUMENT = msgspec.json.decode((Path(__file__).parents[2] / "openapi.json").read_bytes())
_OPERATIONS_WITH_A_BODY = [
    (method, path, operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2])
    for path, operations in _DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if "requestBody" in operation
]
_NEAR_VALUES = [
    "", "x", "0", "1", "500", "2", "shared", 0, 1, 2, 500, -1, 2**63, 1.0, True, None, "2026-01-15T10:30:00Z",
    "2026-01-15T10:30:00+02:00", "local", ["ai"], ["time-series"], [{"key": "x", "value": "y"}], [], {},
    {"pr": "42"}, {"pr": None},
    *(word for schema in _DOCUMENT["components"]["schemas"].values() for word in schema.get("enum", ())),
]  # fmt: skip


def _bodies(struct: type[Body]) -> st.SearchStrategy[JsonObject]:
    """Return bodies whose values all fit the types of their fields, and such with anything in any field."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    sound = {
        name: st.sampled_from([value for value in _NEAR_VALUES if _fits(value, field.type)])
        for name, field in fields.items()
    }
    required = {name for name, field in fields.items() if field.required}
    return st.fixed_dictionaries(
        {name: sound[name] for name in required}, optional={name: sound[name] for name in fields.keys() - required}
    ) | st.fixed_dictionaries(
        {}, optional={name: sound[name] | st.sampled_from(_NEAR_VALUES) | _JSON for name in fields}
    )


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with a service, for requests that may succeed."""
    yield from open_world(tmp_path_factory.mktemp("changing"))


def _others(world: World, path: str) -> dict[str, str]:
    """Make the key or the webhook that a path names, and return its place in the path."""
    project = f"{BASE_PATH}/projects/{world.tenant.project.id}"
    if "{public_key}" in path:
        return {"public_key": world.post(f"{project}/keys", {"name": "other", "role": "VIEWER"}).json()["public_key"]}
    if "{webhook_id}" in path:
        return {"webhook_id": world.post(f"{project}/webhooks", {"url": "https://example.org/"}).json()["id"]}
    return {}


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "schema"), _OPERATIONS_WITH_A_BODY, ids=lambda value: value)
def test_no_values_of_the_fields_of_a_request_make_a_fault(
    changing: World, method: str, path: str, schema: str
) -> None:
    struct = next(each for each in bodies() if each.__name__ == schema)
    codes: Counter[str] = Counter()
    service_id = next((each["service_id"] for each in changing.listed() if each["status"] == "READY"), "")
    names = {"project_id": changing.tenant.project.id, "service_id": service_id or changing.ready()["service_id"]}
    names |= {"vpc_id": "1", "peering_id": "1", "replica_set_id": "a000000000", "move_id": "a000000000"}
    url = BASE_PATH + path.format(**names, **_others(changing, path))

    @settings(max_examples=60, database=None, derandomize=True)
    @given(body=_bodies(struct))
    def send(body: dict[str, Any]) -> None:
        answer = changing.client.request(method, url, json=body, auth=changing.tenant.credentials)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert {"code", "message"} <= answer.json().keys() <= {"code", "message", "details"}
        codes[answer.json()["code"] if answer.status_code >= 400 else "ACCEPTED"] += 1

    send()
    assert codes.keys() - {"MISSING_FIELD", "INVALID_FIELD"}, "no request had sound values only"
    assert "UNKNOWN_FIELD" not in codes, codes


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=_FIELDS, value=_JSON)
def test_no_value_of_a_field_makes_a_fault(shop: Unchanged, field: str, value: Any) -> None:
    before_the_window = {"fork_strategy": "PITR", "target_time": "2001-01-01T00:00:00Z"}
    shop.refused(shop.world.post(shop.targets["fork"], {**before_the_window, field: value}))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=200))
def test_no_bytes_make_a_fault(shop: Unchanged, raw: bytes) -> None:
    shop.refused(shop.world.post(shop.targets["fork"], content=raw, headers={"Content-Type": "application/json"}))
