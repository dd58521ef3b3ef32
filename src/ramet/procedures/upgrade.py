"""Upgrade a service to another major version, after that was tried.

step       leaves behind or does                                       undo
settle     waits for forks that copy from the service, and for what
           is being sent to its off-host archive                       -
stop       the service's server is down                                start it again
copy       a copy of its data                                          destroy
boot       a server of the present version on the copy                 (destroy)
prepare    data without what belongs to the present version            (destroy)
halt       it is stopped                                               (destroy)
upgrade    data of the new version                                     (destroy)
start      a server of the new version, which no client can reach      (destroy)
complete   what each server has, and extensions that are new           (destroy)
analyze    statistics, where pg_upgrade does not carry them over       (destroy)
close      it is stopped                                               (destroy)
set_aside  data, snapshots and WAL belong to the service before        they return
take_over  the service has the data of the new version                 it is the copy's again
serve      a server at the service's endpoint, closed to clients       (take_over)
open       READY                                                       stop it

The service before is the row of the fork that the upgrade was tried on: it gets all that the service had, and is
paused. Once clients may have been let in, nothing else is undone: a service that is stopped then is down, not closed.
"""

import logging
from dataclasses import replace as with_values
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.backend import Backend
from ramet.backends.interface.values import Server, Source
from ramet.errors import Failed, Unavailable, Unseen
from ramet.model.names import suffixed
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service
from ramet.model.snapshot import SnapshotKind
from ramet.model.upgrade import Refusal
from ramet.model.warm_forks import with_pool
from ramet.operations.procedure import Done, Next, NoState, Outcome, Wait, Work
from ramet.procedures.servers import (
    PATIENCE_SECONDS,
    Steps,
    Tools,
    await_settled,
    boot,
    finish,
    is_claimed,
    repeats_from,
    server_of,
    span_of_state_before,
    start_again,
    stop_unopened,
    submit_snapshot,
)
from ramet.procedures.spec import submit
from ramet.procedures.state import UpgradeState
from ramet.store import logins, operations, replica_sets, services, snapshots
from ramet.store.database import Store

_PAUSE_SECONDS = 0.1
_log = logging.getLogger(__name__)
_OF_THE_ARCHIVE = (
    "archived_until",
    "archive_base_at",
    "archive_from",
    "archive_gaps",
    "archive_problem",
    "archive_verified_at",
    "archive_drilled_at",
    "archive_drill_failure",
)


def find_obstacle(store: Store, backend: Backend, service: Service) -> Refusal | None:
    """Return what a serving service has that an upgrade would break; None when there is nothing."""
    if service.upstream is not None:
        return Refusal(
            "the database that it follows",
            "the upgrade would end that",
            "Promote the service first, or upgrade a fork of it.",
        )
    with store.read() as tx:
        sets = replica_sets.live_sets(tx, service.id)
        is_moved = operations.under_way(tx, service.id, ProcedureName.MOVE)
    if is_moved:
        return Refusal(
            "the move under way",
            "its copy cannot follow another version",
            "See 'ramet service moves', and call the move off, or upgrade the service where it is moved to.",
        )
    if sets:
        return Refusal(
            f"read replica set {sets[0].name}",
            "it cannot follow another version",
            "Delete it, and create it again after the upgrade.",
        )
    slots = [slot.name for slot in backend.replication.slots(server_of(service)).slots]
    if slots:
        return Refusal(
            f"replication slots {', '.join(slots)}",
            "pg_upgrade does not carry them over",
            "Drop the subscriptions that use them, and create them again after the upgrade.",
        )
    return None


def check_obstacles(tools: Tools, service: Service) -> None:
    """Raise Failed when a serving service has something that an upgrade would break."""
    found = find_obstacle(tools.store, tools.backend, service)
    if found is not None:
        raise Failed("UPGRADE_REFUSED", f"Service {service.id}: {found.subject}: {found.message}", found.remedy)


class Upgrade(Steps):
    """The steps of `upgrade`."""

    name = ProcedureName.UPGRADE

    def settle(self, work: Work[UpgradeState]) -> Outcome:
        waiting = await_settled(self.tools, work)
        if waiting is not None:
            return waiting
        service, archive = self.tools.service(work.subject), self.tools.backend.archive
        check_obstacles(self.tools, service)
        if archive.url() is not None and archive.is_sending(server_of(service)):
            return Wait(_PAUSE_SECONDS, "the off-host archive is being written")
        return Next("stop", replace(work.state, stopped_at=self.tools.clock()))

    def stop(self, work: Work[UpgradeState]) -> Outcome:
        self.tools.backend.servers.stop(self._before(work))
        return Next("copy")

    def copy(self, work: Work[UpgradeState]) -> Outcome:
        captured = self.tools.backend.restore.capture(self._copy(work), Source(self._before(work), paused=True))
        return Wait(_PAUSE_SECONDS) if captured is None else Next("boot")

    def boot(self, work: Work[UpgradeState]) -> Outcome:
        return boot(self.tools, work, self._copy(work), first=True) or Next("prepare")

    @repeats_from("boot")
    def prepare(self, work: Work[UpgradeState]) -> Outcome:
        self.tools.backend.upgrades.prepare(self._copy(work))
        return Next("halt")

    def halt(self, work: Work[UpgradeState]) -> Outcome:
        self.tools.backend.servers.stop(self._copy(work))
        return Next("upgrade")

    def upgrade(self, work: Work[UpgradeState]) -> Outcome:
        server, upgrade = self._upgraded_copy(work), self.tools.backend.upgrades.upgrade
        upgrading = upgrade(server, work.state.from_major, PATIENCE_SECONDS)
        if upgrading.facts is None:
            return Wait(_PAUSE_SECONDS, upgrading.progress)
        return Next("start", replace(work.state, keeps_statistics=bool(upgrading.facts["keeps_statistics"])))

    def start(self, work: Work[UpgradeState]) -> Outcome:
        return boot(self.tools, work, self._upgraded_copy(work), first=True) or Next("complete")

    @repeats_from("start")
    def complete(self, work: Work[UpgradeState]) -> Outcome:
        self.tools.backend.upgrades.complete(self._upgraded_copy(work), work.state.from_major)
        return Next("analyze")

    @repeats_from("start")
    def analyze(self, work: Work[UpgradeState]) -> Outcome:
        analyze = self.tools.backend.restore.analyze
        if not work.state.keeps_statistics and analyze(self._upgraded_copy(work), PATIENCE_SECONDS) is None:
            return Wait(_PAUSE_SECONDS, "ANALYZE")
        return Next("close")

    def close(self, work: Work[UpgradeState]) -> Outcome:
        self.tools.backend.servers.stop(self._upgraded_copy(work))
        return Next("set_aside", durable=True)  # no earlier step finds the data afterwards

    def set_aside(self, work: Work[UpgradeState]) -> Outcome:
        service, state = self.tools.service(work.subject), work.state
        # A protected service does not expire, and neither does what it was: its life span does not count.
        span = None if service.protected or service.life_span is None else service.life_span.as_granted
        self.tools.backend.upgrades.hand_over(work.subject, state.previous_id)

        def record(tx: sa.Connection) -> None:
            snapshots.move_snapshots(tx, work.subject, state.previous_id)
            logins.move_logins(tx, work.subject, state.previous_id)
            services.update_service(
                tx,
                state.previous_id,
                pg_major=state.from_major,
                environment=service.environment.value,
                verifier=service.verifier.reveal(),
                settings=with_pool(service.settings, None),
                name=suffixed(service.name, f"-before-{state.to_major}"),
                labels=service.labels or None,
                life_span=services.life_span_column(span),
            )

        return Next("take_over", changes=record)

    def take_over(self, work: Work[UpgradeState]) -> Outcome:
        self.tools.backend.upgrades.hand_over(work.state.copy_id, work.subject)
        to_major = work.state.to_major
        return Next("serve", changes=lambda tx: services.update_service(tx, work.subject, pg_major=to_major))

    def serve(self, work: Work[UpgradeState]) -> Outcome:
        opening = Next("open", replace(work.state, is_open=True), durable=True)
        return boot(self.tools, work, self._after(work)) or opening

    def open(self, work: Work[UpgradeState]) -> Outcome:
        server = self._after(work)
        self.tools.backend.servers.start(server)
        if not self.tools.backend.servers.await_ready(server, PATIENCE_SECONDS).ready:
            return Wait(0, "starting")
        self._drop_logins(work, server)
        self.tools.backend.servers.open(server)
        return Done(changes=lambda tx: self._opened(tx, work))

    def _drop_logins(self, work: Work[UpgradeState], server: Server) -> None:
        """Drop the roles of logins that pg_upgrade has carried over: the logins belong to the service before now.

        `complete` has disabled them, unless an earlier release ran it.
        """
        with self.tools.store.read() as tx:
            roles = [one.role for one in logins.list_logins(tx, work.state.previous_id)]
        try:
            if roles:
                self.tools.backend.logins.drop(server, roles)
        except Unseen:
            raise
        except Unavailable as error:
            _log.warning("the logins of service %s before its upgrade stay in its data: %s", work.subject, error)

    def _opened(self, tx: sa.Connection, work: Work[UpgradeState]) -> None:
        finish(tx, work, down_reason=None, last_verified_at=None, drilled_at=None, drill_failure=None)
        services.finish_operation(tx, work.state.previous_id, work.operation_id, **self._columns_before(tx, work))
        self._part_archives(tx, work)
        submit_snapshot(tx, work.subject, SnapshotKind.INITIAL)
        submit(tx, ProcedureName.AFTERCARE, work.subject, NoState())

    def _columns_before(self, tx: sa.Connection, work: Work[UpgradeState]) -> dict[str, Any]:
        """Return the columns of the service before when the upgrade is over."""
        now, report = self.tools.clock(), self.tools.service(work.state.previous_id).report or {}
        took = (now - (work.state.stopped_at or now)).total_seconds()
        stopped = {**report.get("upgrade", {}), "stopped_seconds": round(took, 1)}
        span = span_of_state_before(tx, work.state.previous_id, now)
        ended = {"ready_at": now, "paused": True, "down_reason": None, "life_span": span}
        return {**ended, "report": {**report, "upgrade": stopped}}

    def _part_archives(self, tx: sa.Connection, work: Work[UpgradeState]) -> None:
        """Give what the off-host archive has to the service before; the service gets a name that has nothing there."""
        service = self.tools.service(work.subject)
        known = {name: getattr(service, name) for name in _OF_THE_ARCHIVE}
        known["archive_gaps"] = services.gaps_column(service.archive_gaps)
        known["archived_as"] = server_of(service).archive_name
        services.update_service(tx, work.state.previous_id, **known)
        nothing = dict.fromkeys(_OF_THE_ARCHIVE)
        services.update_service(tx, service.id, **nothing, archived_as=f"{service.id}-{work.state.to_major}")

    def undo_open(self, work: Work[UpgradeState]) -> None:
        stop_unopened(self.tools, work, self._after(work))

    def undo_set_aside(self, work: Work[UpgradeState]) -> None:
        """Give the service its own data again."""
        if not work.state.is_open:
            self.tools.backend.upgrades.hand_over(work.state.previous_id, work.subject)

    def undo_take_over(self, work: Work[UpgradeState]) -> None:
        """Let what the service has got be the copy's again."""
        if not work.state.is_open:
            self.tools.backend.upgrades.hand_over(work.subject, work.state.copy_id)

    def undo_copy(self, work: Work[UpgradeState]) -> None:
        if not work.state.is_open:
            self.tools.backend.servers.destroy(work.state.copy_id)

    def undo_stop(self, work: Work[UpgradeState]) -> None:
        """Let the service serve as before, unless it is being deleted."""
        if work.state.is_open or not is_claimed(self.tools, work):
            return
        server = self._before(work)
        start_again(self.tools, server)
        self.tools.backend.servers.open(server)

    def on_failed(self, tx: sa.Connection, work: Work[UpgradeState], error: str) -> None:
        """End both claims; what the service before has got is known by a state that can be read only."""
        finish(tx, work, down_reason=None)
        services.release_claims(tx, work.operation_id, paused=True)
        previous_id, now = work.state.previous_id, self.tools.clock()
        if work.state.is_open:
            reason = f"It could not be opened after its upgrade: {error}"
            services.update_service(tx, work.subject, down_reason=reason)
            services.update_service(tx, previous_id, **self._columns_before(tx, work))
            self._part_archives(tx, work)
            return
        snapshots.move_snapshots(tx, previous_id, work.subject)
        logins.move_logins(tx, previous_id, work.subject)
        services.update_service(tx, work.subject, pg_major=work.state.from_major)
        services.update_service(tx, previous_id, paused=False, failed_at=now, failure=error)

    def _before(self, work: Work[UpgradeState]) -> Server:
        return with_values(self.tools.server(work), pg_major=work.state.from_major)

    def _after(self, work: Work[UpgradeState]) -> Server:
        return with_values(self.tools.server(work), pg_major=work.state.to_major)

    def _copy(self, work: Work[UpgradeState]) -> Server:
        """Return the server of the copy, at the port of the service before, which does not run."""
        port, copy_id = self.tools.service(work.state.previous_id).port, work.state.copy_id
        return with_values(self._before(work), service_id=copy_id, port=port, pooler_port=None, server_port=None)

    def _upgraded_copy(self, work: Work[UpgradeState]) -> Server:
        return with_values(self._copy(work), pg_major=work.state.to_major)
