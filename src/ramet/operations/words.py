"""The text of a step's error in the history of its operation, where clients read it."""

import subprocess
from pathlib import Path

from ramet.errors import Error


def in_words(error: Exception) -> str:
    """Return a sentence; only an unexpected error is named by its class."""
    match error:
        case Error():
            return str(error)
        case subprocess.TimeoutExpired():
            program = error.cmd if isinstance(error.cmd, str) else str(error.cmd[0])
            return f"{Path(program).name} did not end within {error.timeout:g} s"
        case OSError() if error.strerror is not None:
            return f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror
        case TimeoutError():
            return str(error) or "What the step waited for did not come in time"
        case _:
            return f"{type(error).__name__}: {error}"
