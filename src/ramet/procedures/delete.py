"""Delete a service.

step      waits for or does                                                         undo
settle    the operation that it interrupts, and forks that copy from the service    -
destroy   removes its read replicas, server, volume, archive and snapshots: 404     - (the data is gone)

Before it removes the volume of a service that is archived off the host, `destroy` stops its server and sends what the
archive does not have yet, for a minute at most: it can be forked from there until it expires. What cannot be reached
within that minute is asked again; what has failed for good is not. A server that does not stop has its own minute.
What this process cannot ask about is asked for longer, as most often nothing can be removed then either, but not until
the deadline of the step: where only some requests are answered with an error, the service is removed nevertheless.
"""

import logging
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.servers import SERVER_ENDING
from ramet.errors import Error, Unavailable, Unseen
from ramet.model.archive import is_archived
from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.replicas import cancel_creations, destroy_replicas, mark_sets_deleted
from ramet.procedures.servers import PATIENCE_SECONDS, Steps, Tools, await_settled, finish, server_of, waits_while
from ramet.procedures.state import DeleteState
from ramet.store import operations, services, snapshots

_LONGEST_SHIPPING, _LONGEST_OUTAGE = timedelta(minutes=1), timedelta(minutes=5)
_log = logging.getLogger(__name__)


class Delete(Steps):
    """The steps of `delete`."""

    name = ProcedureName.DELETE

    def settle(self, work: Work[DeleteState]) -> Outcome:
        cancel_creations(self.tools, work.subject)
        return await_settled(self.tools, work) or Next("destroy")

    @waits_while(SERVER_ENDING)
    def destroy(self, work: Work[DeleteState]) -> Outcome:
        destroy_replicas(self.tools, work.subject)
        archived = None if work.state.is_archived else _complete_archive(self.tools, work)
        if archived is not None:
            return archived
        if work.state.left_in_source is None:
            left = self._discard_source(work.subject)
            if left is not None:  # recorded at once: another run would not find it
                return Next(work.step, replace(work.state, left_in_source=left))
        self.tools.backend.servers.destroy(work.subject)

        def record(tx: sa.Connection) -> None:
            mark_sets_deleted(tx, self.tools, work.subject)
            snapshots.delete_snapshots_of(tx, work.subject)
            finish(tx, work, deleted_at=self.tools.clock())
            services.expect_base_backups(tx, work.subject)

        return Done(changes=record, warning=work.state.left_in_source)

    def _discard_source(self, service_id: str) -> str | None:
        """Forget what the service follows; return what stays there: a slot would fill the disk of the source."""
        of_subscription = self.tools.backend.subscriptions.discard(service_id)
        return self.tools.backend.followers.discard(service_id) or of_subscription

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work, down_reason=f"It could not be deleted: {error}")
        interrupted = work.state.interrupted
        if interrupted is not None and operations.is_under_way(tx, interrupted):
            services.update_service(tx, work.subject, operation_id=interrupted)  # nothing else may begin beside it


def _complete_archive(tools: Tools, work: Work[DeleteState]) -> Wait | Next | None:
    """Send the rest of a service to the off-host archive, and record until when it is there before it is removed.

    None: there is nothing to send.
    """
    service = tools.service(work.subject)
    if service.archive_from is None or tools.backend.archive.url() is None or not is_archived(service):
        return None
    server, until = server_of(service), None
    is_last = _is_late(tools, work, _LONGEST_SHIPPING)
    try:
        tools.backend.servers.stop(server)
        if not work.state.is_stopped:
            return Next(work.step, replace(work.state, is_stopped=True))  # the minute of the archive begins
        state = tools.backend.archive.maintain(server, paused=True, timeout_seconds=PATIENCE_SECONDS)
        until = state.archived_until
        missing = state.problem or f"sending WAL to the off-host archive, which has it until {until}"
    except (Error, OSError) as error:
        if isinstance(error, Unseen) and not _is_late(tools, work, _LONGEST_OUTAGE):
            raise
        missing = str(error)
        is_last = _is_late(tools, work, _LONGEST_SHIPPING) or not isinstance(error, Unavailable)
    known = max((each for each in (until, service.archived_until) if each is not None), default=None)
    if until is None or until < work.step_started_at:
        if not is_last:
            return Wait(0.1, missing)
        lost = "service %s is deleted, and what it committed after %s is not in the off-host archive: %s"
        _log.warning(lost, service.id, known, missing)
    return Next(
        work.step,
        replace(work.state, is_archived=True),
        changes=lambda tx: services.update_service(tx, work.subject, archived_until=known),
    )


def _is_late(tools: Tools, work: Work[DeleteState], longest: timedelta) -> bool:
    return tools.clock() - work.step_started_at > longest
