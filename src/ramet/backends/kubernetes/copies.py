"""Copies of a server that serves, where the storage takes no snapshots: a job of the operator runs pg_basebackup."""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from ramet.backends.interface.values import Server, Source
from ramet.backends.kubernetes import egress, jobs, past, snapshots
from ramet.backends.kubernetes.base_backups import base_of
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.kept import Kept
from ramet.backends.kubernetes.site import Forks
from ramet.backends.kubernetes.streaming import Copy
from ramet.errors import Failed, Invalid, Unavailable

_LOOK_SECONDS = 3.0
_BRING_SECONDS = 2.0
# The checkpoint that a copy begins with takes minutes by itself; a second one at the same time hurries it.
_HURRY = """
SELECT 'CHECKPOINT' FROM pg_stat_progress_basebackup WHERE phase = 'waiting for checkpoint to finish' LIMIT 1 \\gexec
SELECT format('%s of %s MB of service {} were sent', round(sum(backup_streamed) / 1e6), round(sum(backup_total) / 1e6))
FROM pg_stat_progress_basebackup HAVING count(*) > 0
"""


@dataclass(frozen=True)
class KubernetesCopies:
    """Copies and how far they are; obeys ramet.backends.interface.copies.Copies.

    A server that is copied is asked now and then, by a program in its pod.
    """

    place: Place
    _said: Kept[str] = field(default_factory=Kept)

    def are_needed(self) -> bool:
        return self.place.site.forks is Forks.COPY

    def takes(self, source: Source) -> bool:
        """Tell whether a fork begins with a copy: one of now does; others have a base."""
        return self.are_needed() and (source.snapshot_id, source.target, source.base_backup_id) == (None, None, None)

    def check(self, source: Source) -> None:
        """Raise Invalid for a copy of a stopped parent: nothing but its server can be copied."""
        if self.takes(source) and source.paused:
            raise Invalid(
                "PARENT_STOPPED",
                f"Service {source.parent.service_id} is stopped, and its storage takes no snapshots: only a server"
                " that runs can be copied",
                "Start it, then fork it.",
            )

    def size_bytes(self, source: Source) -> int | None:
        if not self.takes(source):
            return None
        return int(snapshots.position(self.place, source.parent, paused=source.paused)["size_bytes"])

    def make(self, child: Server, source: Source) -> str | None:
        """Have the operator copy the parent's server, or bring archived WAL to be read; say how far it is."""
        self.check(source)
        if not self.takes(source):
            return self._bring(child, source)
        parent_id = source.parent.service_id
        if self.place.cluster_of(child.service_id) is None:
            self.place.check_runs(source.parent)
            self.place.ensure_namespace(child)
            egress.close(self.place, child.service_id)
            begun = snapshots.position(self.place, source.parent, paused=False)
            copy = Copy(parent_id, json.dumps(begun, sort_keys=True))
            self.place.apply(child, Phase.CLOSED, first=True, recovery=copy, parent_id=parent_id)
        return self.progress(child.service_id, parent_id)

    def _bring(self, child: Server, source: Source) -> str | None:
        if source.target is None or self.place.bucket is None:
            return None
        base = base_of(self.place, source)
        return None if base is None else past.bring(self.place, child, source, base, _BRING_SECONDS)

    def progress(self, service_id: str, source_id: str) -> str | None:
        """Say how far the copy is that a Cluster is made of; None when it is complete.

        Raises Failed when it cannot be made, with what PostgreSQL said.
        """
        if self.place.primary_pod(service_id) is not None:  # the operator makes it after its job
            return None
        doing = jobs.progress(self.place, service_id, f"The copy of service {source_id}")
        return "; ".join(filter(None, [doing, self.hurried(source_id)]))

    def hurried(self, source_id: str) -> str:
        """Hurry the copies that a server is sending; return how much of them was sent when that was last asked."""
        return self._said.of(source_id, _LOOK_SECONDS, partial(self._hurry, source_id))

    def _hurry(self, source_id: str) -> str:
        with suppress(Failed, Unavailable):
            return self.place.run_sql(source_id, _HURRY.format(source_id))
        return self._said.last(source_id, "")
