"""Create a service with the contents of a database elsewhere.

step         leaves behind                                          undo
initialize   a volume with an empty cluster, and the password       destroy
fetch        a copy of the source in the volume, of one moment      (destroy)
boot         a server, closed to clients                            (destroy)
secure       database, roles, extensions                            (destroy)
load         the source's roles, schemas and data                   (destroy)
analyze      statistics; the copy and the password are removed      (destroy)
snapshot     the base of the restore window                         (destroy)
publish      an open endpoint: READY                                -

The copy is taken before the server runs, so that nothing waits for the source while it does. A step that was
interrupted begins again: the copy from nothing, the load with an empty database.
"""

from typing import Any, ClassVar

from msgspec.structs import replace

from ramet.model.procedures import ProcedureName
from ramet.operations.procedure import Next, Outcome, Wait, Work
from ramet.procedures.create import Based
from ramet.procedures.servers import PATIENCE_SECONDS, repeats_from
from ramet.procedures.state import ImportState

_PAUSE_SECONDS = 0.1


class Import(Based):
    """The steps of `import` that `create` does not have."""

    name = ProcedureName.IMPORT
    after_secure: ClassVar[str] = "load"
    after_load: ClassVar[str] = "analyze"
    schema_only: ClassVar[bool] = False

    def initialize(self, work: Work[ImportState]) -> Outcome:
        server, sealed = self.tools.server(work), work.state.sealed
        self.tools.backend.servers.initialize(server)
        if sealed is not None:
            self.tools.backend.sources.keep(server, work.state.source, sealed)
        return Next("fetch", replace(work.state, sealed=None))

    def fetch(self, work: Work[ImportState]) -> Outcome:
        server, state, fetch = self.tools.server(work), work.state, self.tools.backend.sources.fetch
        fetched = fetch(server, state.source, state.facts, PATIENCE_SECONDS, schema_only=self.schema_only)
        if fetched.facts is None:
            return Wait(_PAUSE_SECONDS, fetched.progress)
        return Next("boot", replace(state, report={**state.report, "fetched": fetched.facts}))

    @repeats_from("boot")
    def load(self, work: Work[ImportState]) -> Outcome:
        server, state, load = self.tools.server(work), work.state, self.tools.backend.sources.load
        loaded = load(server, state.facts, owners=state.owners, timeout_seconds=PATIENCE_SECONDS)
        if loaded.facts is None:
            return Wait(_PAUSE_SECONDS, loaded.progress)
        loaded_state = replace(state, report={**state.report, "loaded": loaded.facts})
        return Next(self.after_load, loaded_state, durable=True)  # what was fetched is removed afterwards

    @repeats_from("boot")
    def analyze(self, work: Work[ImportState]) -> Outcome:
        ended = self.tools.backend.restore.analyze(self.tools.server(work), PATIENCE_SECONDS)
        if ended is None:
            return Wait(_PAUSE_SECONDS, "ANALYZE")
        self.tools.backend.sources.discard(work.subject)
        return Next("snapshot", replace(work.state, report={**work.state.report, "statistics": ended}))

    def after_boot(self, state: ImportState) -> str:
        if state.is_based:
            return "publish"
        if "statistics" in state.report:
            return "snapshot"
        return self.after_load if "loaded" in state.report else "secure"

    def destroy(self, work: Work[Any]) -> None:
        self.tools.backend.sources.discard(work.subject)
        super().destroy(work)

    undo_initialize = destroy
