"""The time by which retention removes what is old: it does not follow a step of the wall clock forward at once."""

import contextlib
import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ramet.machine.partial_files import partial_of
from ramet.machine.processes import boot_id
from ramet.model.trusted_time import Reading, Trust, follow

_log = logging.getLogger(__name__)


def read_clocks() -> Reading:
    """Read the clocks of this host. The time since boot includes the time that the host was suspended."""
    return Reading(boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME), time.time())


@dataclass
class TrustedTime:
    """Tells the time to trust. `path` keeps what was read from one process to the next; several may use it."""

    path: Path
    _known: Trust | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> datetime:
        """Return the time without steps forward that are not confirmed yet."""
        with self._lock:
            before, reading = self._latest(), read_clocks()
            known = Trust(reading) if before is None else follow(before, reading)
            if before is not None and len(known.steps) > len(before.steps):
                step = known.steps[-1].seconds
                _log.warning("the clock is %.0f s ahead of the time that passed: nothing is removed by it today", step)
            self._known = known
            self._write(known)
        return datetime.fromtimestamp(known.wall_seconds, UTC)

    def watch(self) -> None:
        """Read the clocks, so that a step is seen beside what passed before and after it."""
        self.now()

    def _latest(self) -> Trust | None:
        """Return what another process wrote, unless this one knows better: what it cannot write, it remembers."""
        written, known = self._read(), self._known
        if written is None or known is None:
            return written or known
        same_boot = written.reading.boot_id == known.reading.boot_id
        return written if same_boot and written.reading.boot_seconds >= known.reading.boot_seconds else known

    def _read(self) -> Trust | None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self.path.read_bytes(), type=Trust)
        return None

    def _write(self, known: Trust) -> None:
        with contextlib.suppress(OSError):  # the storage may be full: this process remembers it
            partial = partial_of(self.path)
            partial.write_bytes(msgspec.json.encode(known))
            partial.replace(self.path)
