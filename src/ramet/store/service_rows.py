"""Rows of services as values: what is selected of them, with the operation that has claimed each."""

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from ramet.model.environment import Environment
from ramet.model.gaps import Gap
from ramet.model.life_span import LifeSpan
from ramet.model.passwords import Secret
from ramet.model.service import Origin, Service
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.model.status import Activity, OperationStatus
from ramet.model.upstream import Following, Upstream
from ramet.store.tables import operation, service

_TYPES = {each.value: each for each in ServiceType}
_ENVIRONMENTS = {each.value: each for each in Environment}
_STATUSES = {each.value: each for each in OperationStatus}

# In the order of the fields of Service, with those of Size, Origin and Activity where these stand: `service_of_row`
# counts.
_ORDER = """
    id project_id name region_code service_type environment cpu_millis memory_gbs volume_type host port pg_major
    created_at verifier pooler_port paused ready_at failed_at failure deleted_at down_reason last_verified_at drilled_at
    drill_failure archive_delay storage_warning archived_until archive_base_at archive_from archive_gaps
    archive_problem archive_verified_at archive_drilled_at archive_drill_failure archived_as
    parent_project_id parent_service_id parent_name fork_strategy fork_target_time origin_snapshot_id data_time
    upstream following protected labels life_span sleep_after_seconds server_port asleep made_by unclaimed
    half_promoted settings
"""


def _selected(report: sa.ColumnElement[Any]) -> sa.Select[Any]:
    columns = [service.c[name] for name in _ORDER.split()]
    of_operation = (operation.c.id, operation.c.procedure, operation.c.status, operation.c.started, operation.c.error)
    claimed = service.outerjoin(operation, service.c.operation_id == operation.c.id)
    return sa.select(*columns, report, *of_operation).select_from(claimed)


WHOLE = _selected(service.c.report)
WITHOUT_REPORT = _selected(sa.null())  # reports are long, and lists do not show them


def service_of_row(row: Sequence[Any]) -> Service:
    """Return the service of a row of WHOLE or WITHOUT_REPORT."""
    columns = tuple(row)  # a row's own attributes take half the time of a listing
    fields = (
        *columns[:4],
        _TYPES[columns[4]],
        _ENVIRONMENTS[columns[5]],
        Size(*columns[6:8]),
        *columns[8:13],
        Secret(columns[13]),
        *columns[14:29],
        () if columns[29] is None else msgspec.convert(columns[29], tuple[Gap, ...]),
        *columns[30:35],
        None if columns[36] is None else Origin(*columns[35:42]),
        None if columns[42] is None else msgspec.convert(columns[42], Upstream),
        None if columns[43] is None else msgspec.convert(columns[43], Following),
        columns[44],
        columns[45] or {},
        None if columns[46] is None else msgspec.convert(columns[46], LifeSpan),
        *columns[47:55],
        None if columns[55] is None else _activity(*columns[55:]),
    )
    return Service(*fields)


def _activity(operation_id: str, procedure: str, status: str, started: bool, error: str | None) -> Activity:
    return Activity(operation_id, procedure, _STATUSES[status], started, error)
