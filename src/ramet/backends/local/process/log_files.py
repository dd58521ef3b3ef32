"""The log files of one server: PostgreSQL's JSON log, and its output before the logging collector starts."""

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ramet.backends.local.host.files import plain, read
from ramet.backends.local.host.paths import ServicePaths
from ramet.model.logs import redacted

_TAIL_BYTES = 64 * 1024
_LAST_LINES = 20
FILE_BYTES = 16 * 1024 * 1024
KEPT_BYTES = 128 * 1024 * 1024
KEPT_SECONDS = 14 * 86400
_NS = 10**9
_GIVING_UP = ("FATAL", "PANIC")
TIMED = "duration: "  # what log_min_duration_statement and auto_explain log begins so, and has a statement
# FATAL also ends sessions that connect during startup or are terminated.
_PARTS_OF_A_START = ("postmaster", "startup", "checkpointer", "background writer", "walwriter")


def files(paths: ServicePaths) -> list[Path]:
    """Return the structured log files in the order of their names, by which cursors continue."""
    return sorted(paths.log.glob("server-*.json"))


def entries(paths: ServicePaths) -> Iterator[dict[str, Any]]:
    """Yield all structured entries, oldest first, without a line that is still being written."""
    for file in files(paths):
        with suppress(FileNotFoundError), plain(file) as opened:
            yield from _parsed(opened.read())


def last_lines(paths: ServicePaths) -> str:
    """Return the last lines of the log, with severity and message only, because statements may contain secrets."""
    newest = _by_last_write(files(paths), time.time_ns())[-1:]
    sources = [(paths.start_log, _start_lines), *((file, _messages) for file in newest)]
    written = sorted((_written_ns(file), file, lines_of) for file, lines_of in sources if file.exists())
    lines = [line for _, file, lines_of in written for line in lines_of(file)]
    return "\n".join(lines[-_LAST_LINES:])


def failed_to_start(paths: ServicePaths, since_ns: int) -> bool:
    """Tell whether the log of a server that was started at about `since_ns` (since the epoch) has a fatal error."""
    if any(f"{word}: " in line for line in _start_lines(paths.start_log) for word in _GIVING_UP):
        return True
    now_ns = time.time_ns()
    written = [file for file in _by_last_write(files(paths), now_ns)[-2:] if since_ns <= _written_ns(file) <= now_ns]
    return any(
        entry.get("error_severity") in _GIVING_UP and entry.get("backend_type") in _PARTS_OF_A_START
        for file in written
        for entry in _parsed(tail(file))
    )


def lacked_origins(paths: ServicePaths) -> bool:
    """Tell whether the log says that the last start ended as it allowed too few replication origins."""
    return any(
        line.startswith(_GIVING_UP) and "could not find free replication state" in line
        for line in last_lines(paths).splitlines()
    )


def prune(paths: ServicePaths, now_seconds: float) -> None:
    """Remove log files that are too old, and the oldest above the size limit; never the current one."""
    now_ns = int(now_seconds * _NS)
    in_use = _in_use(paths)
    # PostgreSQL also creates an empty plain-text file for each JSON file.
    for pattern in ("server-*.json", "server-*.log"):
        written = _by_last_write(paths.log.glob(pattern), now_ns)
        *rotated, current = sorted(written, key=lambda file: file.stem in in_use) or [paths.start_log]
        kept_bytes = _size_bytes(current)
        for file in reversed(rotated):
            kept_bytes += _size_bytes(file)
            if kept_bytes > KEPT_BYTES or now_ns - _written_ns(file) > KEPT_SECONDS * _NS:
                file.unlink(missing_ok=True)


def _in_use(paths: ServicePaths) -> frozenset[str]:
    """Return the names, without their ends, of the files that PostgreSQL says it writes to."""
    return frozenset(Path(line).stem for line in read(paths.data / "current_logfiles").splitlines())


def _by_last_write(found: Iterable[Path], now_ns: int) -> list[Path]:
    """Return files in the order in which they were last written to.

    After the clock was set back, those that were written "later than now" are the oldest.
    """
    written = {file: _written_ns(file) for file in sorted(found)}
    return sorted(written, key=lambda file: (written[file] <= now_ns, written[file]))


def _written_ns(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:  # it has just been removed
        return 0


def _size_bytes(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _messages(file: Path) -> list[str]:
    found = [(entry.get("error_severity", ""), str(entry.get("message", ""))) for entry in _parsed(tail(file))]
    return [f"{severity}:  {redacted(message)}" for severity, message in found if not message.startswith(TIMED)]


def _start_lines(file: Path) -> list[str]:
    return [line for line in tail(file).decode(errors="replace").splitlines() if "STATEMENT:" not in line]


def tail(file: Path) -> bytes:
    """Return the end of a file, which may be long; nothing when there is none."""
    with suppress(FileNotFoundError), plain(file) as opened:
        opened.seek(max(0, os.fstat(opened.fileno()).st_size - _TAIL_BYTES))
        return opened.read()
    return b""


def _parsed(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        try:
            entry = json.loads(line.decode(errors="replace"))  # a message is in the encoding of its database
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry
