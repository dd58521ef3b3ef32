"""The schemas of upgrades: the request, and how an upgrade went."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Body, Identifier, OptionalTimestamp, Timestamp
from ramet.model.status import OperationStatus

Version = Annotated[int, Meta(description="A PostgreSQL major version, such as 18.")]
UpgradeId = Annotated[str, Meta(description="Identifier of the upgrade, and of the fork that it is tried on.")]


class ServiceUpgrade(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An upgrade of a service to another major version, which is tried on a fork first."""

    to_version: Version
    trial: Annotated[bool, Meta(description="true or false: only try it; by default false.")] | None = None
    keep_fork: (
        Annotated[bool, Meta(description="true or false: the fork of a trial remains; by default false.")] | None
    ) = None


class ExtensionVersion(Struct, frozen=True):
    """An extension of a database, and its version before and after the upgrade."""

    database: str
    name: str
    version: str
    new_version: str | None


class RowDifference(Struct, frozen=True):
    """A table whose rows differ; null: it does not exist."""

    table: str
    before: int | None
    after: int | None


class PlanComparison(Struct, frozen=True, omit_defaults=True):
    """How a statement is executed before and after. `changed` is null when that is unknown: see `problem`."""

    statement: str
    changed: bool | None
    problem: str | None = None
    before: list[str] = []
    after: list[str] = []
    cost_before: float | None = None
    cost_after: float | None = None


class Upgrade(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An upgrade that was tried, and how far it is. What is not known yet is absent."""

    upgrade_id: UpgradeId
    service_id: Identifier
    from_version: str
    to_version: str
    status: OperationStatus
    started_at: Timestamp
    finished_at: OptionalTimestamp
    trial: Annotated[bool, Meta(description="Only the fork is upgraded.")]
    keep_fork: Annotated[bool, Meta(description="The fork with the id of the upgrade remains as a service.")]
    previous_service_id: (
        Annotated[str, Meta(description="The paused service that has the state before the upgrade.")] | None
    ) = None
    stopped_seconds: Annotated[float, Meta(description="How long the service was down.")] | None = None
    initial_password: (
        Annotated[str, Meta(description="That of the fork, only in the response to the request.")] | None
    ) = None
    step: Annotated[str, Meta(description="What it does now.")] | None = None
    progress: str = ""
    error: Annotated[str, Meta(description="Why it failed.")] | None = None
    extensions: list[ExtensionVersion] = []
    method: Annotated[str, Meta(description="How pg_upgrade copied the files: clone or copy.")] | None = None
    seconds: Annotated[dict[str, float], Meta(description="The duration of each step.")] = {}
    downtime_seconds: (
        Annotated[float, Meta(description="About how long the service would be down: the steps that it waits for.")]
        | None
    ) = None
    tables: int | None = None
    rows: int | None = None
    row_differences: list[RowDifference] | None = None
    plans: list[PlanComparison] | None = None
    plans_note: Annotated[str, Meta(description="Why no plans are compared.")] | None = None
    problems: Annotated[list[str], Meta(description="What could not be carried over.")] = []
    statistics: Annotated[str, Meta(description="How ANALYZE ended.")] | None = None


class Upgrades(Struct, frozen=True):
    """The upgrades that were tried of a service, newest first."""

    upgrades: list[Upgrade]
