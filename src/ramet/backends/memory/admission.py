"""How many more servers a test lets there be."""

from ramet.backends.memory.volumes import MemoryPart


class MemoryAdmission(MemoryPart):
    """What a test has set; obeys ramet.backends.interface.admission.Admission."""

    def startable(self) -> int | None:
        """Return it."""
        return self._memory.startable
