"""Delete a service.

step      waits for or does                                                         undo
settle    the operation that it interrupts, and forks that copy from the service    -
destroy   removes its read replicas, server, volume, archive and snapshots: 404     - (the data is gone)

Before it removes the volume of a service that is archived off the host, `destroy` stops its server and sends what the
archive does not have yet, for a minute at most: it can be forked from there until it expires. What cannot be reached
within that minute is asked again; what has failed for good is not. A server that does not stop has its own minute.
What this process cannot ask about is asked for longer, as most often nothing can be removed then either. After that it
is given up only where the removal is answered, as some requests may be answered with an error until the end; where the
removal is not answered either, the last state is asked for as long again, for an hour in all.
"""

import logging
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.servers import SERVER_ENDING
from ramet.errors import Error, Unavailable, Unseen
from ramet.model.archive import is_archived
from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.replicas import cancel_creations, destroy_replicas, mark_sets_deleted
from ramet.procedures.servers import (
    PATIENCE_SECONDS,
    Steps,
    Tools,
    await_settled,
    finish,
    left_in_source,
    server_of,
)
from ramet.procedures.state import DeleteState
from ramet.store import operations, services, snapshots

_LONGEST_SHIPPING, _LONGEST_REFUSAL = timedelta(minutes=1), timedelta(minutes=5)
_LONGEST_OUTAGE = timedelta(hours=1)
_log = logging.getLogger(__name__)


class Delete(Steps):
    """The steps of `delete`."""

    name = ProcedureName.DELETE

    def settle(self, work: Work[DeleteState]) -> Outcome:
        cancel_creations(self.tools, work.subject)
        return await_settled(self.tools, work) or Next("destroy")

    def destroy(self, work: Work[DeleteState]) -> Outcome:
        try:
            return self._destroy(work)
        except Unseen:
            is_over = self.tools.clock() - work.created_at > _LONGEST_OUTAGE
            if is_over or not _is_late(self.tools, work, _LONGEST_REFUSAL) or not _is_unsent(self.tools, work):
                raise
            return Next(work.step)  # the wait for the last state begins again

    def _destroy(self, work: Work[DeleteState]) -> Outcome:
        destroy_replicas(self.tools, work.subject)
        archived, unseen = None, None
        try:
            archived = _complete_archive(self.tools, work) if _is_unsent(self.tools, work) else None
        except Unseen as error:
            if not _is_late(self.tools, work, _LONGEST_REFUSAL):
                raise
            unseen = error
        if archived is not None:
            return archived
        if work.state.left_in_source is None:
            left = self._discard_source(work.subject)
            if left is not None:  # recorded at once: another run would not find it
                return Next(work.step, replace(work.state, left_in_source=left), durable=True)
        if unseen is not None:
            return self._destroy_without_last_state(work, str(unseen))
        self.tools.backend.servers.destroy(work.subject)

        def record(tx: sa.Connection) -> None:
            finish(tx, work, deleted_at=self.tools.clock())
            mark_sets_deleted(tx, self.tools, work.subject)
            snapshots.delete_snapshots_of(tx, work.subject)
            if services.is_recovered(tx, work.subject):
                services.expect_archive(tx, work.subject)

        return Done(changes=record, warning=work.state.left_in_source)

    def _destroy_without_last_state(self, work: Work[DeleteState], missing: str) -> Next:
        """Remove the server and the volume. Raises Unseen where that cannot be asked for: then nothing is given up."""
        try:
            self.tools.backend.servers.destroy(work.subject)
        except Unavailable as error:
            if error.code != SERVER_ENDING:
                raise
        known = self.tools.service(work.subject).archived_until
        _report_loss(work, known, missing)
        return _archived(work, known)

    def _discard_source(self, service_id: str) -> str | None:
        """Forget what the service follows; return what stays there: a slot would fill the disk of the source."""
        of_subscription = self.tools.backend.subscriptions.discard(service_id)
        of_standby = self.tools.backend.followers.discard(service_id)
        return of_standby or of_subscription or left_in_source(self.tools.service(service_id))

    def on_failed(self, tx: sa.Connection, work: Work[Any], error: str) -> None:
        finish(tx, work, down_reason=f"It could not be deleted: {error}")
        interrupted = work.state.interrupted
        if interrupted is not None and operations.is_under_way(tx, interrupted):
            services.update_service(tx, work.subject, operation_id=interrupted)  # nothing else may begin beside it


def _is_unsent(tools: Tools, work: Work[DeleteState]) -> bool:
    """Tell whether the off-host archive is to have the rest of a service, and this is not settled yet."""
    service = tools.service(work.subject)
    is_sent = service.archive_base_at is not None and is_archived(service) and tools.backend.archive.url() is not None
    return is_sent and not work.state.is_archived


def _complete_archive(tools: Tools, work: Work[DeleteState]) -> Wait | Next:
    """Send the rest of a service to the off-host archive, and record until when it is there before it is removed.

    Raises Unseen.
    """
    service = tools.service(work.subject)
    server, until = server_of(service), None
    is_last = _is_late(tools, work, _LONGEST_SHIPPING)
    try:
        tools.backend.servers.stop(server)
        if not work.state.is_stopped:
            return Next(work.step, replace(work.state, is_stopped=True))  # the minute of the archive begins
        state = tools.backend.archive.maintain(server, paused=True, timeout_seconds=PATIENCE_SECONDS)
        until = state.archived_until
        missing = state.problem or f"sending WAL to the off-host archive, which has it until {until}"
    except Unseen:
        raise
    except (Error, OSError) as error:
        missing = str(error)
        is_last = _is_late(tools, work, _LONGEST_SHIPPING) or not isinstance(error, Unavailable)
    known = max((each for each in (until, service.archived_until) if each is not None), default=None)
    if until is None or until < work.step_started_at:
        if not is_last:
            return Wait(0.1, missing)
        _report_loss(work, known, missing)
    return _archived(work, known)


def _report_loss(work: Work[DeleteState], known: datetime | None, missing: str) -> None:
    lost = "service %s is deleted, and what it committed after %s is not in the off-host archive: %s"
    _log.warning(lost, work.subject, known, missing)


def _archived(work: Work[DeleteState], known: datetime | None) -> Next:
    return Next(
        work.step,
        replace(work.state, is_archived=True),
        changes=lambda tx: services.update_service(tx, work.subject, archived_until=known),
    )


def _is_late(tools: Tools, work: Work[DeleteState], longest: timedelta) -> bool:
    return tools.clock() - work.step_started_at > longest
