"""Exit codes: the same as those of existing command lines for this interface, so that scripts keep working."""

import errno
import os
import re
import sys
from collections.abc import Callable

import click

from ramet.errors import Error, Exhausted, Forbidden, Invalid, NotFound, Unauthorized, WrongState

TIMED_OUT = 2
INVALID = 3
_INTERRUPTED = 130
_CANNOT_WRITE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)
_OPTIONS = (
    ("fork_strategy PITR with target_time", "--to"),
    ("fork_strategy PITR", "--to"),
    ("fork_strategy NOW", "--now"),
    ("fork_strategy LAST_SNAPSHOT", "--last-snapshot"),
    ("target_time", "--to"),
    ("snapshot_id", "--snapshot"),
    ("max_age_seconds", "--max-age"),
    ("from_service_id", "--from"),
)
_BY_STATUS = {400: INVALID, 401: 4, 403: 5, 404: 6, 408: TIMED_OUT, 504: TIMED_OUT}
_BY_KIND: dict[type[Error], int] = {
    Invalid: INVALID,
    WrongState: INVALID,
    Exhausted: INVALID,
    Unauthorized: 4,
    Forbidden: 5,
    NotFound: 6,
}


def exit_code(error: Error) -> int:
    """Return the exit code for an error."""
    from ramet.client import ApiError, TimedOut

    if isinstance(error, ApiError):
        return _BY_STATUS.get(error.status, 1)
    kinds = {**_BY_KIND, TimedOut: TIMED_OUT}
    return next((kinds[kind] for kind in type(error).__mro__ if kind in kinds), 1)


def in_own_words(text: str) -> str:
    """Return what the server says of a restore point with the options of the command line for the fields."""
    for field, option in _OPTIONS:
        text = re.sub(rf"\b{field}\b", option, text)
    return text


def _say(message: str, style: str = "") -> None:
    from ramet.cli.ui.output import say  # only what prints needs it

    say(message, style)


def run(command: Callable[[], object]) -> int:
    """Run a click command made with standalone_mode off, and return the exit code of this process."""
    try:
        result = command()
    except Error as error:
        _say(f"Error: {in_own_words(str(error))}", "red")
        return exit_code(error)
    except click.UsageError as error:
        error.show()
        return INVALID
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort as interrupt:
        _say(str(interrupt) or "Aborted.")
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has closed it; nothing may be flushed into the pipe at exit.
        sys.stderr.close()
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in _CANNOT_WRITE:
            _say(f"Error: The output cannot be written: {error.strerror}.", "red")
            return 1
        import logging  # few commands need it

        if logging.root.handlers or os.environ.get("RAMET_LOG_LEVEL", "").upper() == "DEBUG":
            logging.getLogger(__name__).exception("the command failed")
        _say(f"Error: BUG: {type(error).__name__}: {error}. RAMET_LOG_LEVEL=DEBUG shows where.", "red")
        return 1
    return result if isinstance(result, int) else 0
