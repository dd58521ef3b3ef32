"""Dry runs of forks over HTTP."""

from typing import Annotated

from litestar.openapi import ResponseSpec
from litestar.params import QueryParameter

from ramet.api.restore_shapes import snapshot_shape
from ramet.api.schemas.forks import ForkPlan
from ramet.control import fork_plans

DryRun = Annotated[
    bool,
    QueryParameter(name="dry_run", required=False, description="Check the request and tell what would be made."),
]
PLANNED = ResponseSpec(ForkPlan, generate_examples=False, description="With dry_run: what would be made.")


def plan_shape(plan: fork_plans.ForkPlan) -> ForkPlan:
    """Return what clients see of a fork that was not asked for yet."""
    fork, point = plan.fork, plan.point
    if fork.origin is None:
        raise AssertionError("BUG: a fork has an origin")
    return ForkPlan(
        parent_service_id=fork.origin.service_id,
        name=fork.name,
        strategy=point.strategy,
        target_time=point.target,
        base_snapshot=None if point.base is None else snapshot_shape(point.base),
        environment=fork.environment,
        cpu_millis=fork.size.cpu_millis,
        memory_gbs=fork.size.memory_gbs,
        wal_bytes=plan.wal_bytes,
        estimated_seconds=round(plan.seconds, 3),
    )
