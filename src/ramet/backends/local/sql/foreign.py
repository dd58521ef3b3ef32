"""What is known of a copy of a server elsewhere until the platform has taken it over: it is in a file beside the data.

Such a copy has the superuser of the source's initdb instead of the platform's role. The platform logs in as that.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import GONE
from ramet.backends.local.host.paths import ServicePaths

_NOTE, _BEFORE, _ADOPTED = "foreign.json", "foreign.before.json", "adopted.json"


class Foreign(msgspec.Struct, frozen=True):
    """The superuser with oid 10, the database that becomes the tenants', and all superusers: none may log in here."""

    superuser: str
    database: str
    superusers: tuple[str, ...] = ()


def read(paths: ServicePaths) -> Foreign | None:
    """Return what is known of a copy; None where the platform's own roles are."""
    return _read(_note(paths))


def write(paths: ServicePaths, foreign: Foreign) -> None:
    """Record that a service's data is a copy that was not taken over yet, whatever was of other data before."""
    (paths.root / _ADOPTED).unlink(missing_ok=True)
    # Names may have bytes that are no UTF-8, which msgspec cannot encode.
    files.write(_note(paths), json.dumps(msgspec.to_builtins(foreign)), durable=True)


def inherit(child: ServicePaths, parent: ServicePaths) -> None:
    """Record of a copy of a parent's data what is known of the parent's, or was before that was taken over."""
    found = read(parent) or _read(parent.root / _BEFORE)
    if found is not None:
        write(child, found)


def note(paths: ServicePaths, changes: dict[str, Any]) -> None:
    """Record what the platform changes in a copy that it takes over, beside what it has changed already."""
    known = adopted(paths)
    for title, change in changes.items():
        known[title] = list(dict.fromkeys([*known.get(title, []), *change])) if isinstance(change, list) else change
    files.write(paths.root / _ADOPTED, msgspec.json.encode(known), durable=True)


def forget(paths: ServicePaths) -> None:
    """Record that the platform has taken a copy over; snapshots of before are still such copies."""
    if _note(paths).exists():
        _note(paths).replace(paths.root / _BEFORE)
        files.flush(paths.root)


def adopted(paths: ServicePaths) -> dict[str, Any]:
    """Return what was changed, so far, when a copy was taken over; nothing where none was."""
    text = files.read(paths.root / _ADOPTED)
    return msgspec.json.decode(text, type=dict[str, Any]) if text else {}


def names_of(found: Foreign | None) -> Sequence[str]:
    """Return the superusers of a copy, the one with oid 10 first."""
    return [] if found is None else list(dict.fromkeys([found.superuser, *found.superusers]))


def _read(note: Path) -> Foreign | None:
    try:
        return msgspec.convert(json.loads(files.read_bytes(note)), Foreign)
    except GONE:
        return None


def _note(paths: ServicePaths) -> Path:
    return paths.root / _NOTE
