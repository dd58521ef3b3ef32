"""Services on a terminal: the list with its lineage, and the details of one service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ramet.api.schemas.services import Service, ServiceMetadata
from ramet.cli.ui.durations import local_time
from ramet.cli.ui.output import print_data, print_pairs, print_result, print_rows, say, status_text
from ramet.endpoints import address
from ramet.model.timestamps import rfc3339
from ramet.model.wal_level import WalLevel

if TYPE_CHECKING:
    from rich.text import Text

    from ramet.api.schemas.archive import DeletedService

COLUMNS = ("service", "id", "status", "env", "type", "size", "endpoint", "space", "own", "created")


def print_services(services: Sequence[Service], output: str, *, as_tree: bool = True) -> None:
    """Print services. The table shows forks below their parents, or with `as_tree` False the order that is given."""
    if output != "table":
        print_data(services, output)
        return
    rows = lineage(services) if as_tree else [("", one) for one in services]
    knows_own = any(service.metrics is not None and service.metrics.own_storage_mb is not None for service in services)
    places = [place for place, column in enumerate(COLUMNS) if column != "own" or knows_own]
    shown = [row_of(service, branch) for branch, service in rows]
    print_rows([COLUMNS[place] for place in places], [[row[place] for place in places] for row in shown])
    for service in services:
        if service.metadata.expiry_warning is not None:
            say(f"{service.name}: {service.metadata.expiry_warning}.")
    for warning in dict.fromkeys(service.metadata.storage_warning for service in services):
        if warning is not None:
            say(warning)


def print_deleted(services: Sequence[DeletedService], output: str) -> None:
    """Print deleted services that can still be forked."""
    columns = ("service", "id", "env", "deleted", "earliest", "latest")
    rows = [
        [one.name, one.service_id, str(one.environment_tag), *map(rfc3339, (one.deleted, one.earliest, one.latest))]
        for one in services
    ]
    print_result(services, output, lambda: print_rows(columns, rows))
    if not services and output == "table":
        say("The off-host archive has no deleted service of this project.")


def row_of(service: Service, branch: str) -> list[str | Text]:
    """Return a service as a row of the table; `branch` is drawn before its name."""
    from rich.text import Text

    return [
        Text(branch, style="dim").append(service.name, style="not dim"),
        service.service_id,
        _status(service),
        str(service.metadata.environment),
        shown_type(service),
        shown_size(service),
        shown_endpoint(service),
        shown_space(service),
        shown_own_space(service),
        local_time(service.created),
    ]


def print_service(service: Service, output: str, extra: Sequence[tuple[str, str]] = ()) -> None:
    """Print one service in full; `extra` lines are added at the end of the table."""
    if output != "table":
        print_data(service, output)
        return
    pairs: list[tuple[str, str | Text]] = [
        ("name", service.name),
        ("id", service.service_id),
        ("status", status_text(service.status)),
        *_optional("reason", service.metadata.status_reason),
        *_optional("read-only", service.metadata.storage_warning),
        *_optional("restore", service.metadata.restore_warning),
        *_optional("expires soon", service.metadata.expiry_warning),
        ("environment", str(service.metadata.environment)),
        *_kept(service),
        *_following(service),
        ("type", shown_type(service)),
        ("size", shown_size(service)),
        ("endpoint", shown_endpoint(service)),
        ("region", service.region_code),
        ("storage", service.resources[0].spec.volume_type if service.resources else ""),
        *_space(service),
        *([] if service.metadata.wal_level is WalLevel.REPLICA else [("wal_level", service.metadata.wal_level.value)]),
        *_high_availability(service),
        *_optional("warm forks", service.metadata.warm_forks and f"keeps {service.metadata.warm_forks}"),
        ("created", service.created.isoformat()),
        *_origin(service),
        *extra,
    ]
    print_pairs(pairs)


def _space(service: Service) -> list[tuple[str, str | Text]]:
    """Return the storage of a service as far as it is known: a new service has not been measured yet."""
    measured = (("", shown_space(service)), ("of its own ", shown_own_space(service)))
    known = [f"{name}{size}" for name, size in measured if size != "-"]
    return [("space", ", ".join(known))] if known else []


def _high_availability(service: Service) -> list[tuple[str, str]]:
    found = service.ha_replicas
    if not found.replica_count:
        return []
    return [("high availability", f"{found.replica_count} replicas, {found.sync_replica_count} synchronous")]


def _status(service: Service) -> Text:
    status = status_text(service.status)
    return status if service.metadata.storage_warning is None else status.append(", read-only", style="red")


def lineage(services: Sequence[Service]) -> list[tuple[str, Service]]:
    """Return the services as trees of forks, with its branch drawn; forks of deleted parents are at the top level."""
    from ramet.model.lineage import tree_rows  # only tables need it

    drawn: list[tuple[str, Service]] = []
    below: list[str] = []  # of each row: what is drawn before the branches of its forks
    for row in tree_rows(services, lambda one: one.service_id, _parent_id):
        indent = "" if row.parent_row is None else below[row.parent_row]
        branch = "" if row.parent_row is None else indent + ("└─ " if row.is_last else "├─ ")
        drawn.append((branch, row.item))
        below.append("" if row.parent_row is None else indent + ("   " if row.is_last else "│  "))
    return drawn


def _parent_id(service: Service) -> str | None:
    return None if service.forked_from is None else service.forked_from.service_id


def shown_type(service: Service) -> str:
    """Return the type, and the major version of PostgreSQL."""
    major = service.metadata.pg_major
    return str(service.service_type) if major is None else f"{service.service_type} {major}"


def shown_size(service: Service) -> str:
    """Return CPU and memory."""
    spec = service.resources[0].spec if service.resources else None
    if spec is None or spec.cpu_millis is None:
        return "shared"
    return f"{spec.cpu_millis / 1000:g} cpu / {spec.memory_gbs} GB"


def shown_endpoint(service: Service) -> str:
    """Return host:port."""
    return address(service.endpoint.host, service.endpoint.port)


def shown_space(service: Service) -> str:
    """Return the storage of the files of this service, with blocks that it shares, if it is known."""
    megabytes = None if service.metrics is None else service.metrics.storage_mb
    return "-" if megabytes is None else f"{megabytes} MB"


def shown_own_space(service: Service) -> str:
    """Return the part of this storage that the service shares with nothing, if it is known."""
    megabytes = None if service.metrics is None else service.metrics.own_storage_mb
    return "-" if megabytes is None else f"{megabytes} MB"


def _origin(service: Service) -> list[tuple[str, str | Text]]:
    if service.forked_from is None:
        return []
    metadata = service.metadata
    name = metadata.parent_name if isinstance(metadata.parent_name, str) else ""
    return [
        ("forked from", f"{name} ({service.forked_from.service_id})".lstrip()),
        *_optional("strategy", metadata.fork_strategy),
        *_optional("target time", metadata.target_time),
        *_optional("data as of", metadata.data_time),
        *_optional("snapshot", metadata.snapshot_id),
    ]


def _following(service: Service) -> list[tuple[str, str | Text]]:
    """Return the source of a service, and how far behind it the service is."""
    found = service.metadata.following
    if found is None:
        return []
    lag = [] if found.lag_bytes is None else [f"{found.lag_bytes} bytes"]
    lag += [] if found.lag_seconds is None else [f"{found.lag_seconds:.1f} s"]
    return [
        ("follows", found.source),
        *([("lag", ", ".join(lag))] if lag else []),
        *_optional("problem", found.problem),
    ]


def _kept(service: Service) -> list[tuple[str, str | Text]]:
    """Return how long a service is kept, and its labels."""
    metadata = service.metadata
    return [
        *([("protected", "yes")] if metadata.protected else []),
        *_optional("expires", metadata.expires_at),
        *([] if metadata.idle_ttl_seconds is None else [("idle time", f"{metadata.idle_ttl_seconds} s at most")]),
        *([] if metadata.sleep_after_seconds is None else [("sleeps", _sleep(metadata))]),
        *(
            [("labels", ", ".join(f"{key}={value}" for key, value in metadata.labels.items()))]
            if metadata.labels
            else []
        ),
    ]


def _sleep(metadata: ServiceMetadata) -> str:
    after = f"after {metadata.sleep_after_seconds} s without a client"
    return f"now: the next client wakes it ({after})" if metadata.sleeping else after


def _optional(name: str, value: object) -> list[tuple[str, str | Text]]:
    return [] if value is None else [(name, str(value))]
