"""Change how many standbys a service has; it serves all the time.

step     leaves behind or does                                              undo
settle   waits for forks that copy from it, then records the new numbers    -
follow   standbys that stream WAL, or fewer of them                         as many as before

If it fails, the old numbers are recorded again.
"""

from dataclasses import replace as with_values
from typing import Any

import sqlalchemy as sa

from ramet.model.high_availability import Standbys, with_standbys
from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.servers import PATIENCE_SECONDS, Steps, await_settled, ends_though_failed, finish
from ramet.procedures.state import StandbysState
from ramet.store import services


class SetHa(Steps):
    """The steps of `set_ha`."""

    name = ProcedureName.SET_HA

    def settle(self, work: Work[StandbysState]) -> Outcome:
        return await_settled(self.tools, work) or Next("follow", changes=lambda tx: _record(tx, work, work.state.after))

    def follow(self, work: Work[StandbysState]) -> Outcome:
        progress = self.tools.backend.replicas.set_standbys(self.tools.server(work), PATIENCE_SECONDS)
        return Done(changes=lambda tx: finish(tx, work)) if progress is None else Wait(0, progress)

    def undo_follow(self, work: Work[StandbysState]) -> None:
        server = with_values(self.tools.server(work), standbys=work.state.before)
        with ends_though_failed(work):
            self.tools.backend.replicas.set_standbys(server, 0)

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work)  # first: the stored state may be unreadable
        _record(tx, work, work.state.before)


def _record(tx: sa.Connection, work: Work[StandbysState], standbys: Standbys) -> None:
    service = services.get_service(tx, work.subject, lock=True)
    if service is not None:
        services.update_service(tx, work.subject, settings=with_standbys(service.settings, standbys))
