"""How many more servers this host has memory for."""

from dataclasses import dataclass

import psutil

from ramet.backends.interface.admission import Admission

SETTING = "RAMET_MEMORY_RESERVE_PERCENT"
USUAL_RESERVE_PERCENT = 5
_MIB = 1024**2
# An idle server of the size "shared": its processes, and the shared memory that it has touched.
_SERVER_BYTES = 32 * _MIB


@dataclass(frozen=True)
class LocalAdmission(Admission):
    """What is available now, but a reserve; obeys ramet.backends.interface.admission.Admission."""

    reserve_percent: int = USUAL_RESERVE_PERCENT

    def startable(self) -> int:
        memory = psutil.virtual_memory()
        return max(0, (memory.available - memory.total * self.reserve_percent // 100) // _SERVER_BYTES)

    def describe(self) -> str:
        """Say how much there is, in a sentence."""
        available = psutil.virtual_memory().available // _MIB
        return (
            f"{available} MB are available, {self.reserve_percent}% of all stay free ({SETTING}):"
            f" memory for about {self.startable()} more shared servers."
        )
