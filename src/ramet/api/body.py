"""Reading request bodies with msgspec, with errors that name the field, its value and the remedy.

Added to what msgspec checks: duplicate fields are refused, since RFC 8259 (4) leaves open which value counts.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.datastructures import State
from litestar.exceptions import HTTPException, InternalServerException

from ramet import acting
from ramet.api.schemas.shared import Body
from ramet.errors import Invalid
from ramet.likeness import suggestion
from ramet.model.keys import ApiKey
from ramet.redaction import shown_fields

LIMIT_BYTES = 1024 * 1024
_SHOWN_CHARACTERS = 64
_SHOWN_FIELDS = 8
_REMEDY = "Send one JSON object."
_PLACE = re.compile(r" - at `\$((?:\[\d+\]|\.\w+)+)(?:\[\.\.\.\])?`$")
_STEP = re.compile(r"\[\d+\]|\.\w+")
_FIELD_PROBLEM = re.compile(r"Object (missing required|contains unknown) field `([^`]*)`")

BodyT = TypeVar("BodyT", bound=Body)


class ApiRequest(Request[None, ApiKey, State]):
    """A request whose body is read as the struct that its handler calls `data`."""

    async def body(self) -> bytes:
        """Return the body. Raises Invalid when the client has disconnected before the end of it."""
        try:
            return await super().body()
        except InternalServerException as error:
            raise Invalid("BODY_INCOMPLETE", "The body did not arrive as a whole", "Send it again.") from error

    async def json(self) -> Any:
        """Return the body as that struct. Raises Invalid, or HTTPException when it is of another media type."""
        field = self.route_handler.parsed_data_field
        if field is None:
            raise AssertionError("BUG: a body is read where no handler asks for one")
        struct = next(part.annotation for part in (field, *field.inner_types) if part.is_subclass_of(Body))
        media_type = self.content_type[0]
        if media_type and media_type != "application/json" and not media_type.endswith("+json"):
            detail = f"Unsupported Content-Type {media_type[:_SHOWN_CHARACTERS]!r}: send application/json"
            raise HTTPException(detail, status_code=415)
        found = parse(await self.body(), struct)
        acting.note(fields=shown_fields(msgspec.structs.asdict(found)))
        return found


def parse(raw: bytes, struct: type[BodyT]) -> BodyT:
    """Return the struct that `raw` contains. Raises Invalid."""
    fields = {field.encode_name for field in msgspec.structs.fields(struct)}
    values = {n: value for n, value in _read_object(raw).items() if value is not None or n not in struct.inherited}
    unknown = values.keys() - fields
    if inherited := unknown & struct.inherited:
        raise Invalid(
            "INHERITED_FIELD", f"{_listed(inherited)}: inherited from the parent", "Leave it out of the body."
        )
    if unknown:
        meant = suggestion(min(unknown), sorted(fields - values.keys()))
        raise Invalid("UNKNOWN_FIELD", f"Unknown field: {_listed(unknown)}", f"{meant}Known fields: {_listed(fields)}.")
    try:
        return msgspec.convert(values, struct)
    except msgspec.ValidationError as error:
        raise _refusal(struct, values, str(error)) from error


def shown(value: Any) -> str:
    """Return a value for a message, cut to what a person reads."""
    if isinstance(value, dict | list):
        # Encoding what could just be decoded may still exceed the recursion limit from here.
        return "an object" if isinstance(value, dict) else "an array"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _read_object(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        raise Invalid("INVALID_JSON", "The body is empty", _REMEDY)
    try:
        value = msgspec.json.decode(raw)
        json.loads(raw, object_pairs_hook=_refuse_duplicates)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        problem = str(error).removeprefix("JSON is malformed: ").partition(" - at ")[0]
        raise Invalid("INVALID_JSON", f"The body is not valid JSON: {problem}", _REMEDY) from error
    if not isinstance(value, dict):
        raise Invalid("INVALID_JSON", f"The body must be a JSON object (got {shown(value)})", _REMEDY)
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise Invalid("DUPLICATE_FIELD", f"Duplicate field: {name[:_SHOWN_CHARACTERS]}", "Send it once.")
        names.add(name)


def _refusal(struct: type[Body], values: Any, problem: str) -> Invalid:
    """Turn what msgspec found into an error with the field, or the part of it, and the field's description."""
    steps = _STEP.findall(place[1]) if (place := _PLACE.search(problem)) else []
    path, value = "".join(steps).lstrip("."), values
    for step in steps:
        value = value[int(step[1:-1]) if step[0] == "[" else step[1:]]
    found = _FIELD_PROBLEM.match(problem)
    if found is None:
        message = f"Invalid value for {path}: {shown(value)}"
    else:
        path = f"{path}.{found[2][:_SHOWN_CHARACTERS]}".lstrip(".")
        message = f"{path} is missing" if found[1] == "missing required" else f"Unknown field: {path}"
    code = "INVALID_FIELD" if steps else "MISSING_FIELD"
    return Invalid(code, message, _description(struct, steps[0][1:] if steps else path))


def _description(struct: type[Body], name: str) -> str:
    """Return the description of a field, which every field of a Body has."""
    _, components = msgspec.json.schema_components([struct])
    schema = components[struct.__name__]["properties"].get(name, {})
    return next((part["description"] for part in (schema, *schema.get("anyOf", ())) if "description" in part), "")


def _listed(names: Iterable[str]) -> str:
    """Return names for an error, as many and as much of each as a person reads."""
    ordered = sorted(names)
    first = ", ".join(name[:_SHOWN_CHARACTERS] for name in ordered[:_SHOWN_FIELDS])
    return first if len(ordered) <= _SHOWN_FIELDS else f"{first} and {len(ordered) - _SHOWN_FIELDS} more"
