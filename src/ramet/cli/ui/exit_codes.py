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
_CANNOT_WRITE = (errno.EBADF, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)
_CANNOT_HAVE = (*_CANNOT_WRITE, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS)
_OPTIONS = (
    ("fork_strategy PITR with target_time", "--to"),
    ("fork_strategy PITR", "--to"),
    ("fork_strategy NOW", "--now"),
    ("fork_strategy LAST_SNAPSHOT", "--last-snapshot"),
    ("target_time", "--to"),
    ("snapshot_id", "--snapshot"),
    ("max_age_seconds", "--max-age"),
    ("from_service_id", "--from"),
    ("source_url", "--from"),
    ("to_version", "--to"),
    ("cpu_millis", "--cpu"),
    ("memory_gbs", "--memory"),
    ("pg_major", "--pg-version"),
    ("service_type", "--type"),
    ("environment_tag", "--environment"),
    ("ttl_seconds", "--ttl"),
    ("idle_ttl_seconds", "--idle-ttl"),
    ("sleep_after_seconds", "--sleep-after"),
    ("max_fork_ttl_seconds", "--max-fork-ttl"),
    ("overlap_seconds", "--overlap"),
    ("bucket_seconds", "--bucket"),
    ("sync_replica_count", "--sync"),
    ("snapshot_interval_seconds", "--snapshot-every"),
    ("snapshot_wal_bytes", "--snapshot-wal"),
    ("window_days", "--days"),
    ("parents", "--parent"),
)
# Fields whose options have the same name.
_SAME_WORDS = (
    *("expires_at", "create_slot", "from_deleted", "keep_fork", "keep_previous", "max_cpu_millis", "max_forks"),
    *("max_memory_gbs", "max_services", "max_storage_gbs", "read_only", "target_is_lost", "wait_for_lsn"),
)
_QUOTED = r"""((?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|(?<!\w)"(?:[^"\\]|\\.)*"(?!\w))"""
_PAST_TIME = r"(?:--)?\b(to|since|until) ('.*' cannot be read as a timestamp: )Use RFC 3339"
_TIMES = "Use a time ago such as 5m, a time of day such as 14:03, '2026-11-22 12:25', or RFC 3339"
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
    from ramet.client.errors import ApiError, TimedOut, is_of_proxy

    if isinstance(error, ApiError):
        return 1 if is_of_proxy(error) else _BY_STATUS.get(error.status, 1)
    kinds = {**_BY_KIND, TimedOut: TIMED_OUT}
    return next((kinds[kind] for kind in type(error).__mro__ if kind in kinds), 1)


def in_own_words(text: str) -> str:
    """Return what the server says with the options of the command line for the fields, and its forms of times.

    What is quoted is a name that a user has given, or a value.
    """
    options = (*_OPTIONS, *((name, f"--{name.replace('_', '-')}") for name in _SAME_WORDS))
    for field, option in options:
        text = re.sub(rf'"{field}": "(\w+)"', rf"{option} \1", text)
    parts = re.split(_QUOTED, text)
    for field, option in options:
        parts[::2] = [re.sub(rf"\b{field}\b", option, part) for part in parts[::2]]
    return re.sub(_PAST_TIME, rf"--\1 \2{_TIMES}", "".join(parts))


def _say(message: str, style: str = "") -> None:
    from ramet.cli.ui.output import say  # only what prints needs it

    say(message, style)


def run(command: Callable[[], object]) -> int:
    """Run a click command made with standalone_mode off, write its output, and return the exit code of this process."""
    code = _run(command)
    try:
        sys.stdout.flush()
    except OSError as error:
        unwritten = _unwritten(error)
        return code or unwritten
    return code


def _unwritten(error: OSError) -> int:
    """Return the exit code for output that cannot be written, and say why; that its reader has ended is no error."""
    from ramet.cli.ui.output import discard

    discard(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return 0
    _say(f"Error: The output cannot be written: {error.strerror}.", "red")
    return 1


def _run(command: Callable[[], object]) -> int:
    try:
        result = command()
    except Error as error:
        _say(f"Error: {in_own_words(str(error))}", "red")
        return exit_code(error)
    except UnicodeEncodeError:
        _say("Error: A name or another value has bytes that are not UTF-8.", "red")
        return INVALID
    except click.UsageError as error:
        _show(error)
        return INVALID
    except click.ClickException as error:
        _show(error)
        return error.exit_code
    except click.Abort as interrupt:
        _say(str(interrupt) or "Aborted.")
        return _INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Exception as error:  # noqa: BLE001 - nothing of Python is shown to a user
        return _unexpected(error)
    return result if isinstance(result, int) else 0


def _show(error: click.ClickException) -> None:
    """Let click print an error. That nobody receives it does not change the exit code."""
    try:
        error.show()
    except OSError:
        from ramet.cli.ui.output import discard

        discard(sys.stderr)


def _unexpected(error: Exception) -> int:
    """Return the exit code for an error that no code of ours raises on purpose, and say what it is."""
    if isinstance(error, OSError) and error.filename is None and error.errno in _CANNOT_WRITE:
        return _unwritten(error)
    if isinstance(error, PermissionError) and error.filename is not None:
        _say(f"Error: {error.filename}: {error.strerror}. Run the command as the user that owns it.", "red")
        return 1
    if isinstance(error, OSError) and error.filename is not None and error.errno in _CANNOT_HAVE:
        _say(f"Error: {error.filename}: {error.strerror}.", "red")
        return 1
    import logging  # few commands need it

    if logging.root.handlers or os.environ.get("RAMET_LOG_LEVEL", "").upper() == "DEBUG":
        logging.getLogger(__name__).error("the command failed", exc_info=error)
    _say(f"Error: BUG: {type(error).__name__}: {error}. RAMET_LOG_LEVEL=DEBUG shows where.", "red")
    return 1
