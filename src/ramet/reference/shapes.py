"""Schemas of openapi.json in a few words each: the type of a value, its limits, and the fields of an object."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]
_LIMITS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {} items"),
    ("maxProperties", "at most {} entries"),
    ("pattern", "matches {}"),
)


@dataclass(frozen=True)
class Type:
    """The type of a value in words; `refers_to` is the schema that it names, if any."""

    text: str
    refers_to: str = ""


@dataclass(frozen=True)
class Field:
    """A parameter, or a field of an object."""

    name: str
    type: Type
    is_required: bool
    description: str


def type_of(schema: Schema) -> Type:
    """Return the type of a schema."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return Type(name, name)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        found = [type_of(option) for option in options]
        return Type(" or ".join(one.text for one in found), next((one.refers_to for one in found if one.refers_to), ""))
    kind = schema.get("type", "any value")
    if kind == "array":
        item = type_of(schema.get("items", {}))
        return Type(f"array of {item.text}", item.refers_to)
    if kind == "object" and isinstance(values := schema.get("additionalProperties"), Mapping):
        value = type_of(values)
        return Type(f"object of {value.text}", value.refers_to)
    return Type(f"{kind} ({schema['format']})" if "format" in schema else str(kind))


def fields_of(schema: Schema) -> list[Field]:
    """Return the fields of an object."""
    required = schema.get("required", ())
    return [
        Field(name, type_of(value), name in required, described(value))
        for name, value in schema.get("properties", {}).items()
    ]


def parameter(found: Schema) -> Field:
    """Return a parameter of an operation; its name says where it stands unless that is the query."""
    name = found["name"] if found["in"] == "query" else f"{found['name']} ({found['in']})"
    text = found.get("description") or _limits(found["schema"])
    return Field(name, type_of(found["schema"]), found.get("required", False), text)


def described(schema: Schema) -> str:
    """Return what a schema says of a value, with its limits where it says nothing."""
    text = schema.get("description", "") or _limits(schema)
    return f"Deprecated. {text}" if schema.get("deprecated") else text


def enumerated(schema: Schema) -> str:
    """Return the values of an enumeration."""
    return ", ".join(map(str, schema.get("enum", ())))


def _limits(schema: Schema) -> str:
    limits = ", ".join(_limits_of(schema))
    return f"{limits[0].upper()}{limits[1:]}." if limits else ""


def _limits_of(schema: Schema) -> Iterator[str]:
    if schema.get("enum"):
        yield f"one of {enumerated(schema)}"
    for name, words in _LIMITS:
        if name in schema:
            yield words.format(schema[name])
    if schema.get("default") is not None:
        yield f"{schema['default']} by default"
