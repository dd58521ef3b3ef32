"""Request bodies: errors name the field, the value and the remedy, without a library's type names."""

import importlib
import pkgutil
import re

import msgspec
import pytest

import ramet.api
from ramet.api.body import parse
from ramet.api.schemas.forks import ForkServiceCreate
from ramet.api.schemas.keys import KeyUpdate
from ramet.api.schemas.metrics import MetricsSeriesRequest
from ramet.api.schemas.service_bodies import ServiceCreate
from ramet.api.schemas.shared import Body
from ramet.errors import Invalid
from tests.api.world import JsonObject, World, bodies

for _module in pkgutil.walk_packages(ramet.api.__path__, "ramet.api."):
    importlib.import_module(_module.name)
BODIES = sorted(bodies(), key=lambda struct: struct.__name__)
NO_FIELD_TAKES = [1.5, [1], {"a": {"b": 1}}, "x" * 5000, True]


def refusal(raw: bytes, struct: type[Body] = ServiceCreate) -> Invalid:
    with pytest.raises(Invalid) as raised:
        parse(raw, struct)
    return raised.value


@pytest.mark.parametrize("struct", BODIES, ids=lambda struct: struct.__name__)
def test_a_value_of_a_wrong_type_is_refused_with_its_field_its_value_and_what_fits(struct: type[Body]) -> None:
    fields = msgspec.structs.fields(struct)
    sound = {field.encode_name: "x" for field in fields if field.required}
    for field in fields:
        refused = 0
        for value in NO_FIELD_TAKES:
            try:
                msgspec.convert(value, field.type)
            except msgspec.ValidationError:
                error = refusal(msgspec.json.encode({field.encode_name: value, **_without(sound, field)}), struct)
                refused += 1
            else:
                continue
            assert re.match(rf"Invalid value for {field.encode_name}(\[\d+\])?: ", error.message), error.message
            assert len(error.message) < 200
            assert error.details
            assert not {"`", "Expected", "$."} & set(error.message.split()), error.message
            assert "`" not in error.message + error.details
        assert refused, f"{field.encode_name} takes every value that the test knows"


def _without(sound: dict[str, str], field: msgspec.structs.FieldInfo) -> dict[str, str]:
    return {name: value for name, value in sound.items() if name != field.encode_name}


@pytest.mark.parametrize("struct", [one for one in BODIES if one is not KeyUpdate], ids=lambda struct: struct.__name__)
def test_null_in_a_request_means_absent(struct: type[Body]) -> None:
    for field in msgspec.structs.fields(struct):
        if not field.required:
            assert msgspec.convert(None, field.type) is None, field.encode_name


@pytest.mark.parametrize(
    ("path", "body", "found"),
    [
        ("logins", {"read_only": None, "ttl_seconds": None}, {"read_only": False}),
        ("settings", {"settings": {"max_connections": 200}, "restart": None}, {"status": "UPGRADING"}),
        ("upgrades", {"to_version": 19, "trial": None, "keep_fork": None}, {"trial": False, "keep_fork": False}),
        ("../../keys/{}/rotate", {"overlap_seconds": None}, {"name": "key of main"}),
    ],
)
def test_null_has_the_effect_of_an_absent_field(world: World, path: str, body: JsonObject, found: JsonObject) -> None:
    service_id = world.ready()["service_id"]
    answer = world.post(world.path(service_id, path.format(world.tenant.key.public_key)), body)
    assert answer.is_success, answer.text
    assert answer.json() | found == answer.json()
    assert world.get(world.path(service_id)).status_code == 200  # a rotated key has its secret for an hour


def test_an_unknown_enum_value_is_refused_with_the_known_ones() -> None:
    error = refusal(b'{"fork_strategy": "SOMETIME"}', ForkServiceCreate)
    assert error.message == 'Invalid value for fork_strategy: "SOMETIME"'
    assert error.details == "One of LAST_SNAPSHOT, NOW, PITR."


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (b'["x"]', 'Invalid value for filters[0]: "x"'),
        (b'[{"key": "a", "value": "b"}, {"key": "a"}]', "filters[1].value is missing"),
        (b'[{"key": 1, "value": "b"}]', "Invalid value for filters[0].key: 1"),
        (b'[{"key": "a", "value": "b", "colour": "red"}]', "Unknown field: filters[0].colour"),
    ],
)
def test_the_part_that_is_wrong_is_named(filters: bytes, message: str) -> None:
    body = b'{"name": "a", "from": "b", "to": "c", "filters": ' + filters + b"}"
    assert refusal(body, MetricsSeriesRequest).message == message
    assert refusal(b'{"name": "a", "addons": ["ai", "nope"]}').message == 'Invalid value for addons[1]: "nope"'


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b'{"name": "a", "name": "b"}', "name"),
        (b'{"name": "a", "cpu_millis": 1, "name": "a"}', "name"),
        (b'{"name": "a", "colour": {"deep": 1, "deep": 2}}', "deep"),
    ],
)
def test_a_duplicate_field_is_refused(raw: bytes, name: str) -> None:
    error = refusal(raw)
    assert (error.code, error.details) == ("DUPLICATE_FIELD", "Send it once.")
    assert error.message == f"Duplicate field: {name}"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"[1]", "(got an array)"),
        (b"nul", "truncated"),
        (b'{"name": "a",\n}', "trailing comma in object (byte 14)"),
        (b'{"name": "\\ud800"}', "truncated"),
        (b'{"addons": ["\\udc00"]}', "invalid utf-16 surrogate pair"),
        (b'{"\\ud800": 1}', "truncated"),
        (b'{"name": "\xff"}', "invalid start byte"),
        (b'{"name": NaN}', "invalid character (byte 9)"),
        (b'{"name": 1e999}', "Number out of range"),
        (b'{"name": ' + b"9" * 5000 + b"}", "out of range"),
        (b'{"a":' * 100_000, "recursion depth"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused_with_the_place_and_the_reason(raw: bytes, words: str) -> None:
    error = refusal(raw)
    assert error.code == "INVALID_JSON"
    assert words in error.message
    assert error.details == "Send one JSON object."
