"""Change the settings of PostgreSQL that a service has of its own.

step     leaves behind or does                                                       undo
settle   waits for forks that copy from it, then records the new settings            -
apply    those that can change while it serves, and while its replicas do            those of before
stop     if the others may: the server is down for a short time                      -
boot     a server with the new settings                                              the server is stopped
open     READY again

Without the permission to restart, what needs it waits for the next start. If it fails, the settings of before are
recorded again, and the observer starts the server with them.
"""

from contextlib import suppress
from dataclasses import replace as with_values
from typing import Any

import sqlalchemy as sa

from ramet.errors import Error, Failed, Unavailable, Unseen
from ramet.model.parameters import with_parameters
from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Work
from ramet.procedures.lifecycle import Change
from ramet.procedures.replicas import servers_of_replicas
from ramet.procedures.servers import await_settled, finish
from ramet.procedures.state import ParametersState
from ramet.store import services

_WHILE_SERVING = ("settle", "apply")


class SetParameters(Change):
    """The steps of `set_parameters`."""

    name = ProcedureName.SET_PARAMETERS

    def settle(self, work: Work[ParametersState]) -> Outcome:
        return await_settled(self.tools, work) or Next("apply", changes=lambda tx: _record(tx, work, work.state.after))

    def apply(self, work: Work[ParametersState]) -> Outcome:
        backend, server = self.tools.backend, self.tools.server(work)
        try:
            waiting = backend.parameters.apply(server)
        except Unavailable as error:
            if isinstance(error, Unseen) or backend.servers.inspect(server).serving:
                raise
            self._apply_to_replicas(work.subject)
            return Next("stop" if work.state.restarts else "boot")  # it may be starting with those of before
        self._apply_to_replicas(work.subject)
        return Next("stop") if waiting and work.state.restarts else Done(changes=lambda tx: finish(tx, work))

    def _apply_to_replicas(self, service_id: str) -> None:
        """Let the replicas have them too: what they cannot take now, they take at their next start."""
        for server in servers_of_replicas(self.tools, service_id):
            with suppress(Error):
                self.tools.backend.parameters.apply(server)

    def undo_apply(self, work: Work[ParametersState]) -> None:
        """Put those of before in force again, if it serves and PostgreSQL still takes them; otherwise at its start."""
        before = tuple(sorted(work.state.before.items()))
        with suppress(Unavailable, Failed):
            self.tools.backend.parameters.apply(with_values(self.tools.server(work), parameters=before))

    def on_undoing(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        """Say why it is down, if it is: later only the undone step is known."""
        if work.step not in _WHILE_SERVING:
            services.update_service(tx, work.subject, down_reason=f"Its settings could not be changed: {error}")

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work)
        _record(tx, work, work.state.before)


def _record(tx: sa.Connection, work: Work[ParametersState], parameters: dict[str, str]) -> None:
    service = services.get_service(tx, work.subject, lock=True)
    if service is not None:
        services.update_service(tx, work.subject, settings=with_parameters(service.settings, parameters))
