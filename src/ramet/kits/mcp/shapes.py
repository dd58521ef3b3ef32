"""What an agent sees of a service: what it can act on, and no password."""

from typing import Any

import msgspec

from ramet.api.schemas.services import Service
from ramet.endpoints import address
from ramet.errors import Forbidden
from ramet.kits.mcp.callers import Caller
from ramet.model.environment import Environment

MARK = {"run-by": "mcp"}


def service_shape(service: Service) -> dict[str, Any]:
    """Return a service, without what does not apply to it."""
    metadata = service.metadata
    known = {
        "name": service.name,
        "service_id": service.service_id,
        "status": service.status,
        "status_reason": metadata.status_reason,
        "environment": metadata.environment,
        "postgresql": metadata.pg_major,
        "endpoint": address(service.endpoint.host, service.endpoint.port),
        "forked_from": None if service.forked_from is None else metadata.parent_name or service.forked_from.service_id,
        "data_time": metadata.data_time,
        "expires_at": metadata.expires_at,
        "protected": metadata.protected or None,
        "sleeping": metadata.sleeping or None,
        "labels": dict(metadata.labels) or None,
        "storage_mb": None if service.metrics is None else service.metrics.storage_mb,
    }
    plain: dict[str, Any] = msgspec.to_builtins({name: one for name, one in known.items() if one is not None})
    return plain


def is_own_fork(caller: Caller, service: Service) -> bool:
    """Tell whether a service is a fork that agents may change: a DEV fork made here, or by the key of a forker."""
    origin, metadata = service.forked_from, service.metadata
    if origin is None or origin.is_standby or metadata.environment is not Environment.DEV or metadata.protected:
        return False
    return MARK.items() <= metadata.labels.items() or caller.is_forker


def check_own_fork(caller: Caller, service: Service, verb: str) -> None:
    """Raise Forbidden where `is_own_fork` says no."""
    if not is_own_fork(caller, service):
        label = " ".join(f"{key}={value}" for key, value in MARK.items())
        raise Forbidden(
            "NOT_OWN_FORK",
            f"{verb} is for forks that these tools have made, and {service.name} is none",
            f"Fork it first. A person hands over a DEV fork with 'ramet service label {service.service_id} {label}'.",
        )
