"""Create a service that receives the changes of a database elsewhere by logical replication.

step         leaves behind                                                            undo
initialize   a volume with an empty cluster                                           destroy
prepare      a publication and a slot in the source; its password beside the volume   (destroy removes them again)
fetch        the schema of the source                                                 (destroy)
boot         a server, closed to clients                                              (destroy)
secure       database, roles, extensions                                              (destroy)
load         the schema                                                               (destroy)
subscribe    a subscription that the platform owns                                    (destroy)
copy         waits for the first copy of each table                                   -
analyze      statistics                                                               -
snapshot     the base of the restore window                                           (destroy)
publish      an open endpoint: READY                                                  -

The publication comes before the schema: a table that is made in between is in neither.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from msgspec.structs import replace

from ramet.backends.interface.subscriptions import SOURCE_UNREACHABLE
from ramet.errors import Unavailable
from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Next, Outcome, Wait, Work
from ramet.procedures.import_database import Import
from ramet.procedures.servers import repeats_from
from ramet.procedures.state import ImportState

_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0


@dataclass(frozen=True)
class FollowLogical(Import):
    """The steps of `follow_logical` that an import does not have. It remembers when to ask which source again."""

    name = ProcedureName.FOLLOW_LOGICAL
    after_load: ClassVar[str] = "subscribe"
    schema_only: ClassVar[bool] = True
    _progress: dict[str, tuple[float, str]] = field(default_factory=dict)

    def initialize(self, work: Work[ImportState]) -> Outcome:
        self.tools.backend.servers.initialize(self.tools.server(work))
        return Next("prepare")

    def prepare(self, work: Work[ImportState]) -> Outcome:
        server, source, sealed = self.tools.server(work), work.state.source, work.state.sealed
        if sealed is not None:
            missing = self.tools.backend.subscriptions.publish(server, source, sealed)
            if missing is not None:
                return Wait(_PAUSE_SECONDS, missing)
            self.tools.backend.sources.keep(server, source, sealed)
        return Next("fetch", replace(work.state, sealed=None))

    @repeats_from("boot")
    def subscribe(self, work: Work[ImportState]) -> Outcome:
        try:
            self.tools.backend.subscriptions.subscribe(self.tools.server(work))
        except Unavailable as error:
            if error.code != SOURCE_UNREACHABLE:
                raise
            return Wait(_LONGEST_PAUSE_SECONDS, str(error))
        return Next("copy")

    @repeats_from("boot")
    def copy(self, work: Work[ImportState]) -> Outcome:
        now = self.tools.stopwatch()
        due, progress = self._progress.get(work.subject, (now, ""))
        if now >= due:
            seen = self.tools.backend.subscriptions.observe(self.tools.server(work))
            if seen.is_copied:
                self._progress.pop(work.subject, None)
                report = {**work.state.report, "copied_tables": seen.tables}
                return Next("analyze", replace(work.state, report=report), durable=True)  # it is not loaded again
            # Each look opens a session in the source: the longer the copy lasts, the fewer.
            waited = (self.tools.clock() - work.step_started_at).total_seconds()
            progress = f"{seen.copied_tables} of {seen.tables} tables copied. {seen.problem or ''}"
            self._progress[work.subject] = (now + min(_LONGEST_PAUSE_SECONDS, waited / 20), progress)
        self.tools.backend.host.check_room()  # the copy is no session, which would become read-only
        return Wait(_PAUSE_SECONDS, progress)

    def destroy(self, work: Work[Any]) -> None:
        self._progress.pop(work.subject, None)
        self.record_left(work, self.tools.backend.subscriptions.discard(work.subject))
        super().destroy(work)

    undo_initialize = destroy

    def after_boot(self, state: ImportState) -> str:
        copied = "copied_tables" in state.report and "statistics" not in state.report and not state.is_based
        return "analyze" if copied else super().after_boot(state)
