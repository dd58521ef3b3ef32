"""Files that a process writes beside another one, and which then replace it."""

import contextlib
import os
import re
import time
from pathlib import Path

_LEFT_AFTER_SECONDS = 3600.0
_PID = re.compile(r"[0-9]{1,7}")  # at most 4194304: proc(5)


def partial_of(path: Path) -> Path:
    """Return the file of this process that is to replace `path`; remove those that killed processes have left.

    A process may be one of another container, so that not its pid but the age of its file says whether it has ended.
    """
    for each in path.parent.glob(f"{path.name}.*"):
        with contextlib.suppress(OSError):
            is_partial = _PID.fullmatch(each.name.removeprefix(f"{path.name}.")) is not None
            if is_partial and time.time() - each.stat().st_mtime > _LEFT_AFTER_SECONDS:
                each.unlink()
    return path.with_name(f"{path.name}.{os.getpid()}")
