"""The fields of a request as records show them: without secrets, without what opens something, and short."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

_SECRET = re.compile(r"password|secret|token|credential|private|passphrase|authorization|(^|_)key$", re.IGNORECASE)
_PUBLIC = ("public_key",)
_URL = re.compile(r"(^|_)(url|uri|dsn|conninfo)$", re.IGNORECASE)
_MASK = "***"
_MOST_CHARACTERS = 200
_MOST_FIELDS = 40
_DEEPEST = 3


def shown_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Return fields without those that are absent, with a mask for each secret; of a URL only where it leads to."""
    present = [(name, value) for name, value in fields.items() if value is not None and value is not msgspec.UNSET]
    return {shown_text(name): _shown(name, value, 0) for name, value in present[:_MOST_FIELDS]}


def shown_text(text: str) -> str:
    """Return a text that any store can keep: cut to a limit, without characters that are no text."""
    cut = text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
    return cut.encode(errors="replace").decode().replace("\0", "�")


def _shown(name: str, value: object, depth: int) -> object:
    if is_secret(name):
        return _MASK
    plain = msgspec.to_builtins(value)
    if isinstance(plain, str):
        return _place(plain) if _URL.search(name) else shown_text(plain)
    if isinstance(plain, bool | int | float) or plain is None:
        return plain
    if depth == _DEEPEST:
        return "…"
    if isinstance(plain, dict):
        some = list(plain.items())[:_MOST_FIELDS]
        return {shown_text(str(key)): _shown(str(key), inner, depth + 1) for key, inner in some}
    return [_shown(name, inner, depth + 1) for inner in list(plain)[:_MOST_FIELDS]]


def is_secret(name: str) -> bool:
    """Tell whether a field of this name holds a secret."""
    return name not in _PUBLIC and _SECRET.search(name) is not None


def _place(url: str) -> str:
    """Return scheme, host and port of a URL: user, path and query may hold passwords."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        host = parts.hostname or ""
    except ValueError:
        return _MASK
    return shown_text(f"{parts.scheme}://{host}{port}") if parts.scheme and host else _MASK
