"""Reading the text of a body as one JSON object, so that what is wrong with it is said in words of its own.

Names that stand twice are refused: the standard leaves open which of the two values counts (RFC 8259, 4).
"""

import json
import math
from typing import Any, NoReturn

import msgspec

from ramet.errors import Invalid

SHOWN_CHARACTERS = 64
_REMEDY = "Send one JSON object."


def read_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object that `raw` holds. Raises Invalid."""
    value = _read(raw)
    if not isinstance(value, dict):
        raise _unreadable(f"The body must be a JSON object, not {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Return a value for a message, cut to what a person reads."""
    if isinstance(value, dict | list):
        # Encoding what could just be decoded may still exceed the recursion limit from here.
        return "an object" if isinstance(value, dict) else "an array"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def _read(raw: bytes) -> Any:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise _unreadable(f"The body is not UTF-8: byte {error.start} cannot be read") from error
    if not text.strip():
        raise _unreadable("The body is empty")
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _unreadable(f"The body cannot be read as JSON from {place} on") from error
    except RecursionError as error:
        raise _unreadable("The body is nested too deeply") from error
    except ValueError as error:  # Python bounds the digits that it turns into a number
        raise _unreadable("The body holds a number with too many digits") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        _check_text(name, "A name in the body")
        if name in found:
            raise Invalid("DUPLICATE_FIELD", f"{name[:SHOWN_CHARACTERS]} stands twice in one object", "Send it once.")
        for text in value if isinstance(value, list) else (value,):
            _check_text(text, name[:SHOWN_CHARACTERS])
        found[name] = value
    return found


def _check_text(value: Any, name: str) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _unreadable(f"{name} holds one half of a surrogate pair, which is no character") from error


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise _unreadable(f"{text[:SHOWN_CHARACTERS]} is no number of JSON that can be kept")


def _unreadable(message: str) -> Invalid:
    return Invalid("INVALID_JSON", message, _REMEDY)
