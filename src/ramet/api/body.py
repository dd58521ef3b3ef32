"""Reading request bodies: a JSON object checked field by field, so that errors name field, value and remedy."""

import re
from collections.abc import Iterable, Set
from typing import Any, TypeVar, get_args

import msgspec
from litestar import Request
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from msgspec.structs import FieldInfo

from ramet.api.jsontext import SHOWN_CHARACTERS, read_object, shown
from ramet.api.schemas.shared import Body
from ramet.errors import Invalid
from ramet.model.project import ApiKey

LIMIT_BYTES = 1024 * 1024
_SHOWN_FIELDS = 8
_PLACE = re.compile(r" - at `\$((?:\[\d+\]|\.\w+)+)`$")
_STEP = re.compile(r"\[\d+\]|\.\w+")
_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")

BodyT = TypeVar("BodyT", bound=Body)


class WireRequest(Request[None, ApiKey, State]):
    """A request whose body is read as the struct that its handler calls `data`."""

    async def json(self) -> Any:
        """Return the body as that struct. Raises Invalid, or HTTPException when it is of another media type."""
        field = self.route_handler.parsed_data_field
        if field is None:
            raise AssertionError("BUG: a body is read where no handler asks for one")
        struct = next(part.annotation for part in (field, *field.inner_types) if part.is_subclass_of(Body))
        _check_media_type(self.content_type[0])
        return parse(await self.body(), struct)


def parse(raw: bytes, struct: type[BodyT]) -> BodyT:
    """Return the struct that `raw` holds; an optional field that is null is absent. Raises Invalid."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    absent = struct.inherited | {name for name, field in fields.items() if not (field.required or _takes_null(field))}
    values = {name: value for name, value in read_object(raw).items() if value is not None or name not in absent}
    _check_names(values.keys(), fields.keys(), struct.inherited)
    for name, field in fields.items():
        if field.required and name not in values:
            raise Invalid("MISSING_FIELD", f"{name} is missing", _remedy(field))
    return struct(**{fields[name].name: _convert(fields[name], value) for name, value in values.items()})


def _takes_null(field: FieldInfo) -> bool:
    return type(None) in get_args(field.type)


def _check_media_type(media_type: str) -> None:
    if media_type and media_type != "application/json" and not media_type.endswith("+json"):
        shown = repr(media_type[:SHOWN_CHARACTERS])
        raise HTTPException(f"Content-Type {shown} is not understood; send application/json", status_code=415)


def _check_names(given: Set[str], known: Set[str], inherited: Set[str]) -> None:
    strangers = given - known
    if fixed := strangers & inherited:
        raise Invalid("INHERITED_FIELD", f"{_listed(fixed)}: inherited from the parent", "Leave it out of the body.")
    if strangers:
        raise Invalid("UNKNOWN_FIELD", f"There is no field {_listed(strangers)}", f"Known are {_listed(known)}.")


def _convert(field: FieldInfo, value: Any) -> Any:
    try:
        return msgspec.convert(value, field.type)
    except (ValueError, RecursionError) as error:
        raise Invalid("INVALID_FIELD", _complaint(field.encode_name, value, str(error)), _remedy(field)) from error


def _complaint(name: str, value: Any, problem: str) -> str:
    """Say what is wrong with a field, or with which part of it, as msgspec has found it."""
    for step in _STEP.findall(place[1]) if (place := _PLACE.search(problem)) else ():
        name, value = f"{name}{step}", value[int(step[1:-1])] if step[0] == "[" else value[step[1:]]
    if found := _MISSING.match(problem):
        return f"{name}.{found[1]} is missing"
    if found := _UNKNOWN.match(problem):
        return f"{name} has no field {found[1][:SHOWN_CHARACTERS]}"
    return f"{name} cannot be {shown(value)}"


def _remedy(field: FieldInfo) -> str:
    """Return the field's own description, which every field of a Body has."""
    information = msgspec.inspect.type_info(field.type)
    options = information.types if isinstance(information, msgspec.inspect.UnionType) else (information,)
    schemas = (option.extra_json_schema for option in options if isinstance(option, msgspec.inspect.Metadata))
    return next((schema["description"] for schema in schemas if schema and "description" in schema), "")


def _listed(names: Iterable[str]) -> str:
    """Return names for an error, as many and as much of each as a person reads."""
    ordered = sorted(names)
    first = ", ".join(name[:SHOWN_CHARACTERS] for name in ordered[:_SHOWN_FIELDS])
    return first if len(ordered) <= _SHOWN_FIELDS else f"{first} and {len(ordered) - _SHOWN_FIELDS} more"
