"""Forks, their plans and their reports."""

from __future__ import annotations

from ramet.api import schemas
from ramet.api.schemas.services import Service
from ramet.client.connection import Connection, given
from ramet.client.life_spans import Keeping, kept_fields
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.wal_level import WalLevel


class Forks(Connection):
    """The operations on forks."""

    def fork_service(
        self,
        service_id: str,
        strategy: ForkStrategy,
        *,
        target_time: str | None = None,
        snapshot_id: str | None = None,
        name: str | None = None,
        cpu_millis: str | None = None,
        memory_gbs: str | None = None,
        environment: Environment = Environment.DEV,
        quiet: bool | None = None,
        from_deleted: bool | None = None,
        wal_level: WalLevel | None = None,
        max_age_seconds: int | None = None,
        keeping: Keeping | None = None,
        idempotency_key: str | None = None,
    ) -> Service:
        """Ask for a fork; its `initial_password` is in this answer only. What is None is inherited.

        `target_time` is for PITR; `snapshot_id`, for LAST_SNAPSHOT, is used instead of the newest snapshot.
        With `from_deleted` the service is a deleted one in the off-host archive; NOW means its last state there.
        With `max_age_seconds` a fork of now may have a state that is so old: one that the service keeps ready.
        `quiet` disables its scheduled jobs and foreign credentials; by default for DEV forks only.
        """
        fields = given(
            target_time=target_time,
            snapshot_id=snapshot_id,
            name=name,
            cpu_millis=cpu_millis,
            memory_gbs=memory_gbs,
            quiet=quiet,
            from_deleted=from_deleted,
            wal_level=wal_level,
            max_age_seconds=max_age_seconds,
        )
        fields |= kept_fields(keeping)
        body = {"fork_strategy": strategy, "environment_tag": environment, **fields}
        return self.make(self.path(service_id, "forkService"), Service, body, idempotency_key)

    def fork_services(
        self,
        service_id: str,
        strategy: ForkStrategy,
        count: int,
        *,
        environment: Environment = Environment.DEV,
        keeping: Keeping | None = None,
        idempotency_key: str | None = None,
        **fields: str | bool | int | None,
    ) -> list[Service]:
        """Ask for several forks, or none, with these fields of a request for one; each has its own password."""
        chosen = {**given(**fields), **kept_fields(keeping), "count": count}
        body = {"fork_strategy": strategy, "environment_tag": environment, **chosen}
        return self.make(self.path(service_id, "forkServices"), list[Service], body, idempotency_key)

    def fork_report(self, service_id: str) -> schemas.forks.ForkReport:
        """Return what a READY fork contains."""
        return self.call("GET", self.path(service_id, "forkReport"), schemas.forks.ForkReport)

    def plan_fork(
        self, service_id: str, strategy: ForkStrategy, **fields: str | bool | int | None
    ) -> schemas.forks.ForkPlan:
        """Return the plan of a fork with these fields of a request; nothing is created."""
        body = {"fork_strategy": strategy, **given(**fields)}
        return self.call("POST", self.path(service_id, "forkService") + "?dry_run=true", schemas.forks.ForkPlan, body)
