"""The address of the form that makes a service again, with the values that it was to have."""

from collections.abc import Mapping
from urllib.parse import urlencode

from ramet.console.views.forms import size_value
from ramet.console.views.life_spans import kept_values
from ramet.model.fork import ForkStrategy
from ramet.model.operation_record import OperationRecord
from ramet.model.procedures import ProcedureName
from ramet.model.service import Origin, Service
from ramet.model.wal_level import wal_level_of


def again_path(service: Service, creation: OperationRecord | None) -> str:
    """Return the address of the form that creates a service again, with the same values; `creation` is what failed."""
    if service.upstream is not None:
        return f"/console/follow?again={service.id}"
    if creation is not None and creation.procedure == ProcedureName.IMPORT:
        return f"/console/import?again={service.id}"
    origin = service.origin
    path = "/console/new" if origin is None else f"/console/services/{origin.service_id}/fork"
    asked = {
        "name": service.name,
        "size": size_value(service.size),
        "environment": service.environment,
        **kept_values(service),
        **(_of_new(service) if origin is None else _restore_point(origin)),
    }
    return f"{path}?{urlencode({name: value for name, value in asked.items() if value})}"


def _of_new(service: Service) -> Mapping[str, str]:
    return {
        "service_type": service.service_type,
        "version": str(service.pg_major),
        "wal_level": wal_level_of(service.settings),
    }


def _restore_point(origin: Origin) -> Mapping[str, str]:
    is_snapshot = origin.strategy == ForkStrategy.LAST_SNAPSHOT
    return {
        "strategy": origin.strategy,
        "snapshot_id": (origin.snapshot_id or "") if is_snapshot else "",
        "target_time": origin.target_time or "",
    }
