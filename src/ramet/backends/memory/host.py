"""A host of 16 cores and 64 GB that has room for everything."""

from collections.abc import Sequence

from ramet.backends.interface.values import Server
from ramet.backends.memory.volumes import ROW_BYTES, MemoryPart
from ramet.model.cursor import decode_cursor, encode_cursor, sequence_number
from ramet.model.logs import LogPage, LogQuery
from ramet.model.service_type import ServiceType
from ramet.model.size import Size


class MemoryHost(MemoryPart):
    """An imaginary host; obeys ramet.backends.interface.host.Host."""

    def size(self) -> Size:
        """Return a host of 16 cores and 64 GB."""
        return Size(16000, 64)

    def default_pg_major(self, service_type: ServiceType) -> int:
        return 18

    def has_tls(self, pg_major: int) -> bool:
        """Claim TLS for every version."""
        return True

    def address(self, service_id: str, project_id: str, host: str) -> str:
        """Return the host of all."""
        return host

    def volume_type(self) -> str:
        return "memory"

    def check_service_type(self, service_type: ServiceType, pg_major: int) -> None:
        """Accept every type."""

    def check_room(self) -> None:
        """Find room for everything."""

    def port_is_free(self, port: int) -> bool:
        """Find every port free."""
        return True

    def describe(self) -> Sequence[tuple[str, str]]:
        """Say that nothing here is real."""
        return [("backend", "memory: services are lists of rows, for trying the control plane out")]

    def storage_pressure(self, server: Server | None, *, lasting: bool) -> str | None:
        """Return what a test has set, for all or for one."""
        return self._memory.short_of_room if server is None else self._memory.short_of_quota.get(server.service_id)

    def discard_free_blocks(self) -> None:
        """Nothing is kept."""

    def disk_usage(self, service_id: str) -> int | None:
        """Return the size of the rows."""
        return len(self._memory.volume(service_id).rows) * ROW_BYTES

    def measure(self, server: Server) -> dict[str, float] | None:
        """Measure what a test has set, beside the size of the rows."""
        volume = self._memory.volume(server.service_id)
        return {**volume.measured, "ramet_storage_bytes": len(volume.rows) * ROW_BYTES} if volume.running else None

    def read_log(self, server: Server, query: LogQuery) -> LogPage:
        """Return what a test has put into the log; a cursor counts the entries before it."""
        lines = self._memory.volume(server.service_id).log
        last = len(lines) if query.cursor is None else decode_cursor(query.cursor, sequence_number)
        found = [(n, line) for n, line in reversed(list(enumerate(lines[:last]))) if query.wants(line)]
        page = [line for _, line in found[: query.limit] if not query.is_past(line.at)]
        return LogPage(page, encode_cursor(str(found[query.limit - 1][0])) if len(found) > query.limit else None)

    def stop_all(self) -> None:
        for volume in self._memory.volumes.values():
            volume.running = volume.is_open = False
