"""Whatever a client sends wrong gets a 4xx in the one shape, with field, value and remedy, and changes nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ramet.api.application import BASE_PATH
from tests.api.world import JsonObject, World, open_world

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


class Calm:
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
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calm]:
    folder: Path = tmp_path_factory.mktemp("calm")
    for world in open_world(folder):
        yield Calm(world)


@pytest.mark.parametrize("fields", [*BAD_SIZES, *WRONG_VALUES], ids=str)
@pytest.mark.parametrize("verb", ["create", "fork"])
def test_a_wrong_value_is_refused_with_its_field(calm: Calm, verb: str, fields: JsonObject) -> None:
    sound = {"name": "x"} if verb == "create" else NOW
    body = calm.refused(calm.world.post(calm.targets[verb], {**sound, **fields}))
    assert any(field in body["message"] for field in fields)


@pytest.mark.parametrize("fields", WRONG_FORKS, ids=str)
def test_a_wrong_fork_is_refused(calm: Calm, fields: JsonObject) -> None:
    body = calm.refused(calm.world.post(calm.targets["fork"], fields))
    assert "fork_strategy" in body["message"] or "target_time" in body["message"]
    assert body["details"]


@pytest.mark.parametrize("fields", WRONG_CREATES, ids=str)
def test_a_wrong_create_is_refused(calm: Calm, fields: JsonObject) -> None:
    body = calm.refused(calm.world.post(calm.targets["create"], fields))
    assert body["details"]


@pytest.mark.parametrize("raw", NOT_JSON, ids=lambda raw: repr(raw[:24]))
@pytest.mark.parametrize("verb", ["create", "fork"])
def test_a_body_that_is_no_json_object_is_refused(calm: Calm, verb: str, raw: bytes) -> None:
    answer = calm.world.post(calm.targets[verb], content=raw, headers={"Content-Type": "application/json"})
    assert calm.refused(answer)["code"] == "INVALID_JSON"


def test_all_fields_at_fault_are_shown_but_never_a_page_of_them(calm: Calm) -> None:
    body = calm.refused(calm.world.post(calm.targets["fork"], {**NOW, **{"f" * 500 + str(n): 1 for n in range(50)}}))
    assert "and 42 more" in body["message"]
    assert len(body["message"]) < 1000


def test_the_window_is_in_the_answer_to_a_target_outside_of_it(calm: Calm) -> None:
    target = {"fork_strategy": "PITR", "target_time": "2001-01-01T00:00:00Z"}
    assert "which reaches from 20" in calm.refused(calm.world.post(calm.targets["fork"], target))["message"]


@pytest.mark.parametrize("verb", ["create", "fork"])
def test_a_body_over_one_mebibyte_is_refused(calm: Calm, verb: str) -> None:
    large = json.dumps({"name": "x" * (1024 * 1024)}).encode()
    for content in (large, iter([large])):
        answer = calm.world.post(calm.targets[verb], content=content, headers={"Content-Type": "application/json"})
        assert calm.refused(answer, 413)["code"] == "BODY_TOO_LARGE"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json"])
def test_a_body_of_another_media_type_is_refused(calm: Calm, kind: str) -> None:
    answer = calm.world.post(calm.targets["fork"], content=json.dumps(NOW), headers={"Content-Type": kind})
    assert kind in calm.refused(answer, 415)["message"]


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
    calm: Calm, method: str, path: str, allowed: set[str]
) -> None:
    url = f"{BASE_PATH}/{path.format(project=calm.world.tenant.project.id, service=calm.parent)}"
    answer = calm.world.client.request(method, url, auth=calm.world.tenant.credentials)
    assert calm.refused(answer, 405)["code"] == "METHOD_NOT_ALLOWED"
    assert allowed <= {name.strip() for name in answer.headers["allow"].split(",")}
    assert answer.headers["allow"] in answer.json()["details"]


@pytest.mark.parametrize(
    "path", ["/", "/public", f"{BASE_PATH}/nothing", f"{BASE_PATH}/projects/x", "/%00", "/a" * 2000]
)
def test_an_unknown_address_is_a_404_in_the_one_shape(calm: Calm, path: str) -> None:
    assert calm.refused(calm.world.get(path), 404)["code"] == "NOT_FOUND"


def test_no_free_port_and_no_room_are_refused(calm: Calm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(calm.world.backend), "port_is_free", lambda *_: False)
    for verb, body in (("create", {"name": "x"}), ("fork", NOW)):
        assert calm.refused(calm.world.post(calm.targets[verb], body))["code"] == "NO_FREE_PORT"


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "tab\tbed", "schlüssel"])
def test_an_unusable_idempotency_key_is_refused(calm: Calm, key: str) -> None:
    for verb, body in (("create", {"name": "x"}), ("fork", NOW)):
        answer = calm.world.post(calm.targets[verb], body, headers={b"Idempotency-Key": key.encode()})
        assert calm.refused(answer)["code"] == "INVALID_IDEMPOTENCY_KEY"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = st.sampled_from(
    ["name", "cpu_millis", "memory_gbs", "fork_strategy", "target_time", "environment_tag", "addons", "region_code"]
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fields=st.dictionaries(_FIELDS | st.text(), _JSON, max_size=4), verb=st.sampled_from(["create", "fork"]))
def test_no_json_object_makes_a_fault(calm: Calm, fields: dict[str, Any], verb: str) -> None:
    # A field of the other verb keeps every body invalid, so that nothing is ever made.
    calm.refused(calm.world.post(calm.targets[verb], {**fields, "neither": 1}))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=_FIELDS, value=_JSON)
def test_no_value_of_a_field_makes_a_fault(calm: Calm, field: str, value: Any) -> None:
    before_the_window = {"fork_strategy": "PITR", "target_time": "2001-01-01T00:00:00Z"}
    calm.refused(calm.world.post(calm.targets["fork"], {**before_the_window, field: value}))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=200))
def test_no_bytes_make_a_fault(calm: Calm, raw: bytes) -> None:
    calm.refused(calm.world.post(calm.targets["fork"], content=raw, headers={"Content-Type": "application/json"}))
