"""What bounds the servers of this host beside storage and ports: memory, processes, files, shared memory."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ramet.backends.local.host.kernel_limits import Amount, Kernel
from ramet.model.capacity import Bound, Capacity

RESERVE_SETTING = "RAMET_MEMORY_RESERVE_PERCENT"
USUAL_RESERVE_PERCENT = 5
USUAL_COMMIT_PERCENT = 150
_MIB = 1024**2
# What an idle server of the size "shared" takes, with room for a few clients.
_SERVER_MBS = 32
_SERVER_PROCESSES = 12
_SERVER_FILES = 200
_SERVER_DYNAMIC_MBS = 1
# Of what is counted, so much is left to everything else on the host.
_KEPT_PERCENT = 5


@dataclass(frozen=True)
class LocalAdmission:
    """What is available now, but a reserve; obeys ramet.backends.interface.admission.Admission.

    `uid` is the user that the servers run as.
    """

    reserve_percent: int = USUAL_RESERVE_PERCENT
    commit_percent: int = USUAL_COMMIT_PERCENT
    uid: int = field(default_factory=os.geteuid)
    kernel: Kernel = field(default_factory=Kernel)

    def capacity(self) -> Capacity:
        memory = self.kernel.memory()
        committed = memory.most // _MIB * self.commit_percent // 100
        return Capacity((self._memory(memory), *self._counted()), committed)

    def describe(self) -> Sequence[tuple[str, str]]:
        """Say what there is of each, in rows."""
        return [(bound.name, describe(bound)) for bound in self.capacity().bounds]

    def _memory(self, found: Amount) -> Bound:
        kept = found.most * self.reserve_percent // 100
        return Bound(
            "memory",
            "MB of memory",
            (found.most - kept) // _MIB,
            found.used // _MIB,
            _SERVER_MBS,
            f"{100 - self.reserve_percent}% of {found.source}",
            f"End other programs, or lower {RESERVE_SETTING}.",
        )

    def _counted(self) -> Iterator[Bound]:
        kernel = self.kernel
        for name, unit, found, each in (
            ("processes", "processes", kernel.processes(self.uid), _SERVER_PROCESSES),
            ("open files", "open files", kernel.open_files(), _SERVER_FILES),
            ("shared memory segments", "segments of System V shared memory", kernel.shared_segments(), 1),
        ):
            if found is not None:
                yield _bound(name, unit, found, each)
        dynamic = kernel.dynamic_shared_memory()
        if dynamic is not None:
            in_mbs = Amount(dynamic.most // _MIB, dynamic.used // _MIB, dynamic.source)
            yield _bound("dynamic shared memory", "MB of dynamic shared memory", in_mbs, _SERVER_DYNAMIC_MBS)


def describe(bound: Bound) -> str:
    """Say in a sentence how much of something is in use."""
    return (
        f"{bound.used} of {bound.most} {bound.unit} are in use (limit: {bound.source}): enough for about"
        f" {bound.room} more shared servers."
    )


def _bound(name: str, unit: str, found: Amount, each: int) -> Bound:
    most = found.most - found.most * _KEPT_PERCENT // 100
    return Bound(
        name, unit, most, found.used, each, f"{100 - _KEPT_PERCENT}% of {found.source}", f"Raise {found.source}."
    )
