"""A clock that can be stepped, for one Ramet and its servers only: libfaketime reads how far it is off from a file.

Run as a module it is `ramet`, with that clock; with WITH_SERVERS in the environment the servers have it too.
"""

import os
import select
import time
from dataclasses import dataclass
from pathlib import Path

from ramet.backends.local.host import children

WITH_SERVERS = "PROVE_FAKETIME_SERVERS"
_LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")


@dataclass(frozen=True)
class Faketime:
    """The wall clock of the processes that are started with `environment`. Monotonic clocks and files keep the time."""

    file: Path

    def step_to(self, seconds: float) -> None:
        """Set how far the clock is ahead of the host's."""
        partial = self.file.with_suffix(".new")
        partial.write_text(f"{seconds:+.0f}")
        partial.chmod(0o644)
        partial.replace(self.file)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that give a process this clock."""
        return {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }


def library() -> Path | None:
    """Return where libfaketime is (Debian's package faketime), or None."""
    return next((path for pattern in _LIBRARIES for path in Path("/").glob(pattern[1:])), None)


def sweep(pid: int | None) -> None:
    """Remove the shared memory that libfaketime leaves of a process which was killed."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        (Path("/dev/shm") / name).unlink(missing_ok=True)  # noqa: S108 - libfaketime's choice


def share_with_servers() -> None:
    """Let the servers that this process starts have its own clock; they get no variables of Ramet's otherwise."""
    own = {name: value for name, value in os.environ.items() if "FAKE" in name or name == "LD_PRELOAD"}
    children.ENVIRONMENT.update(own)


def sleep(seconds: float) -> None:
    """Pause without clock_nanosleep, which libfaketime 0.9.10 cannot do by the monotonic clock."""
    select.select([], [], [], seconds)


if __name__ == "__main__":
    from ramet.cli.commands import main

    time.sleep = sleep  # type: ignore[assignment]
    if WITH_SERVERS in os.environ:
        share_with_servers()
    main()
