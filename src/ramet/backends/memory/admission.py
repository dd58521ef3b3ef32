"""How many servers a test lets there be."""

from ramet.backends.memory.volumes import MemoryPart
from ramet.model.capacity import Bound, Capacity


class MemoryAdmission(MemoryPart):
    """What a test has set; obeys ramet.backends.interface.admission.Admission."""

    def capacity(self) -> Capacity:
        """Return it: room for so many more servers, and so much memory that all may come to need."""
        memory = self._memory
        if memory.startable is None:
            return Capacity(committed_mbs=memory.committed_mbs)
        bound = Bound("memory", "servers", memory.startable, 0, 1, "a test", "Let the test have more.")
        return Capacity((bound,), memory.committed_mbs)
