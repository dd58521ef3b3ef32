"""The types and bounds of parameters as the document states them; their handlers take text, to word refusals."""

from typing import Any

from ramet.api.routes.logs import MOST_TERMS
from ramet.control.operations import LARGEST_PAGE, PAGE
from ramet.model.logs import SEVERITIES

_ID = {"type": "string", "pattern": "^[a-z0-9]{10}$"}
_NUMBER = {"type": "string", "pattern": "^[0-9]+$"}
_TEXT = {"type": "string", "minLength": 1}
_MOMENT = {"type": "string", "format": "date-time"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "project_id": _ID,
    "service_id": _ID,
    "snapshot_id": _ID,
    "replica_set_id": _ID,
    "vpc_id": _NUMBER,
    "peering_id": _NUMBER,
    "Idempotency-Key": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "dry_run": {"type": "boolean", "default": False},
    "limit": {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE},
    "cursor": _TEXT,
    "all": {"type": "boolean", "default": False},
    "node": {"type": "integer", "minimum": 0, "default": 0},
    "until": _MOMENT,
    "since": _MOMENT,
    "search": {"type": "array", "items": {"type": "string", "pattern": r"\S"}, "maxItems": MOST_TERMS},
    "severities": {"type": "array", "items": {"type": "string", "enum": list(SEVERITIES)}, "maxItems": MOST_TERMS},
}
