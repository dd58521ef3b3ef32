"""What recovery on a standby has logged, newest first."""

from collections.abc import Iterator, Sequence

import msgspec

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import log_files
from ramet.backends.local.server.log_reader import decoded, lines_backwards

# Messages of the processes that receive and replay WAL; those of sessions could say the same.
OF_RECOVERY = ("startup", "walreceiver")
STARTS = "entering standby mode"


class Line(msgspec.Struct):
    """The fields that are read of a line of the log."""

    timestamp: str = ""
    message: str = ""
    backend_type: str = ""


_DECODER = msgspec.json.Decoder(Line)


def lines(paths: ServicePaths, processes: Sequence[str], limit_bytes: int | None = None) -> Iterator[Line]:
    """Yield what these processes have logged, newest first, from all that is kept of the log or from its end."""
    scanned = 0
    for _, line in lines_backwards(log_files.files(paths)):
        scanned += len(line)
        if limit_bytes is not None and scanned > limit_bytes:
            return
        try:
            entry = decoded(line, _DECODER)
        except (ValueError, msgspec.MsgspecError):
            continue
        if entry.backend_type in processes:
            yield entry
