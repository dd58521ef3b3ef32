"""The settings of services in memory."""

from collections.abc import Collection, Mapping

from ramet.backends.interface.parameters import InForce
from ramet.backends.interface.values import Server
from ramet.backends.memory.volumes import MemoryPart
from ramet.errors import Failed, Invalid
from ramet.model.parameters import PARAMETERS


class MemoryParameters(MemoryPart):
    """Keeps what is in force; obeys ramet.backends.interface.parameters.Parameters."""

    def check(self, server: Server) -> None:
        """Refuse what a test says."""
        for name, value in server.parameters:
            if value == self._memory.unacceptable:
                raise Invalid("INVALID_SETTING", "PostgreSQL does not accept these settings", name)

    def apply(self, server: Server) -> Collection[str]:
        """Take all but what needs a restart."""
        volume, wanted = self._memory.running(server.service_id), dict(server.parameters)
        if self._memory.unacceptable in wanted.values():
            raise Failed("SETTINGS_NOT_ACCEPTED", "PostgreSQL does not accept one of them")
        later = {name for name in PARAMETERS if PARAMETERS[name].needs_restart}
        waiting = {name for name in later if wanted.get(name) != volume.parameters.get(name)}
        volume.parameters = {name: value for name, value in wanted.items() if name not in later} | {
            name: value for name, value in volume.parameters.items() if name in later
        }
        volume.pending = waiting
        return waiting

    def in_force(self, server: Server, names: Collection[str]) -> Mapping[str, InForce]:
        """Return what was applied, or taken at the start."""
        volume = self._memory.running(server.service_id)
        return {name: InForce(volume.parameters.get(name), name in volume.pending) for name in names}
