"""Start, await and stop server processes. They outlive this process, and the next one finds them again."""

import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ramet.backends.interface.values import Readiness
from ramet.backends.local.host import files
from ramet.backends.local.host.children import ENVIRONMENT, reap_ended, spawn
from ramet.backends.local.host.own_faults import GONE
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.host.system_user import Account
from ramet.backends.local.process import log_files, signals
from ramet.backends.local.process.identity import (
    children_of,
    find_server,
    processes_in,
    remember,
    runs,
    title_of,
    work_done,
    works_in,
)
from ramet.errors import Failed, Unavailable
from ramet.machine.installation import Installation
from ramet.machine.processes import record_of
from ramet.machine.programs import complete
from ramet.machine.waiting import wait_until

_PAUSE_SECONDS = 0.001
_EXEC_SECONDS = 5.0
_LAST_LINES_SECONDS = 1.0


def initialize(paths: ServicePaths, installation: Installation, account: Account, platform_role: str) -> None:
    """Run initdb in the data directory, which may exist and must be empty; the caller flushes it to disk."""
    command = [
        installation.program("initdb"), "-D", str(paths.data), "--username", platform_role, "--encoding=UTF8",
        *_locale(installation), "--data-checksums", "--auth-local=peer", "--auth-host=reject", "--no-sync",
        "--no-instructions",
    ]  # fmt: skip
    done = complete(command, timeout_seconds=300, env=ENVIRONMENT, cwd=paths.root, **account.identity())
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)} failed with exit status {done.returncode}: {done.stderr[-2000:].strip()}")


def _locale(installation: Installation) -> list[str]:
    if installation.major >= 17:
        return ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C.UTF-8"]
    return ["--locale=C.UTF-8"]


def start(
    paths: ServicePaths, installation: Installation, account: Account, overrides: Mapping[str, str] | None = None
) -> int:
    """Start the server of a data directory unless it runs; return its pid without waiting for it to be ready.

    `overrides` are settings for this run only, which take precedence over the configuration file.
    """
    with files.locked(paths.start_lock):
        running = find_server(paths)
        if running is not None:
            return running
        _clear_stale_locks(paths)
        pid = _spawn(paths, installation, account, overrides or {})
        remember(paths.process_record, pid)
    return pid


def _spawn(paths: ServicePaths, installation: Installation, account: Account, overrides: Mapping[str, str]) -> int:
    command = [installation.program("postgres"), "-D", str(paths.data), "-c", f"config_file={paths.config_file}"]
    for name, value in overrides.items():
        command += ["-c", f"{name}={value}"]
    with files.output(paths.root, paths.start_log) as log:
        pid = spawn(command, account, paths.root, log)
    wait_until(lambda: runs(pid, command[0]) or record_of(pid) is None, _EXEC_SECONDS)
    return pid


def _clear_stale_locks(paths: ServicePaths) -> None:
    """Remove the lock files of a server that is gone: PostgreSQL takes any process with their pid for that server.

    Raises Unavailable while processes of a killed server still work in the directory: a second server would destroy the
    data.
    """
    left = processes_in(paths.data) if files.is_there(paths.pid_file) else []
    if left:
        raise Unavailable(
            "SERVER_ENDING",
            f"The previous server of service {paths.service_id} is still shutting down",
            f"pids {', '.join(map(str, left))}",
        )
    for lock in (paths.pid_file, *paths.sockets.glob(".s.PGSQL.*")):
        lock.unlink(missing_ok=True)


def why_unreadable(file: Path, paths: ServicePaths, installation: Installation, account: Account) -> str | None:
    """Let PostgreSQL read a configuration file for a data directory; return what is wrong with it."""
    command = [installation.program("postgres"), "-D", str(paths.data), "-c", f"config_file={file}", "-C", "port"]
    done = complete(command, timeout_seconds=30, env=ENVIRONMENT, cwd=paths.root, **account.identity())
    return None if done.returncode == 0 else done.stderr.replace(str(file), "the configuration").strip()[-2000:]


def running(paths: ServicePaths) -> int | None:
    """Return the pid of the server, starting ones included, or None when none runs."""
    pid = find_server(paths)
    if pid is None:
        reap_ended()
    return pid


def await_ready(paths: ServicePaths, timeout_seconds: float) -> Readiness:
    """Wait for a starting server for at most `timeout_seconds`.

    When no server runs any more, raises with the last lines of its log: Failed when the log has a fatal error,
    Unavailable when it was killed, so that it can be started again.
    """
    starting = find_server(paths)
    if starting is not None:
        _await_word(paths, starting, timeout_seconds)
    pid = running(paths)
    if pid is None:
        wait_until(lambda: not processes_in(paths.data), _LAST_LINES_SECONDS)  # the logger ends last
        last_lines = log_files.last_lines(paths)
        if log_files.failed_to_start(paths, _started_ns(paths)):
            raise Failed("SERVER_DIED", f"The server of service {paths.service_id} died while starting", last_lines)
        raise Unavailable(
            "SERVER_KILLED", f"The server of service {paths.service_id} was killed while starting", last_lines
        )
    return Readiness(True) if is_ready(paths) else Readiness(False, progress(pid, "starting"))


def _started_ns(paths: ServicePaths) -> int:
    """Return the approximate time of the last start, in nanoseconds since the epoch; 0 when there was none."""
    try:
        return paths.process_record.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def is_ready(paths: ServicePaths) -> bool:
    """Tell whether the server runs and accepts connections on its private socket."""
    pid = find_server(paths)
    # A process that is being killed has no arguments, but its lock file may still say that it is ready.
    return pid is not None and title_of(pid) != "" and _says_ready(paths.pid_file, pid)


def is_starting(paths: ServicePaths) -> bool:
    """Tell whether the server of a primary starts, or recovers from a crash, and was not told to stop.

    After the crash of one of its processes the lock file says "ready" all the while, but it has no WAL writer.
    """
    pid = running(paths)
    if pid is None or title_of(pid) == "":
        return False
    if _says_ready(paths.pid_file, pid):
        titles = [title for _, title in children_of(pid)]  # a kernel may not tell any
        return bool(titles) and not any(title.endswith(": walwriter") for title in titles)
    return _state(paths.pid_file, pid) == b"starting"


def only_stops(paths: ServicePaths) -> bool:
    """Tell whether the server was started only to be stopped cleanly: it has no libraries, and may not serve."""
    pid = find_server(paths)
    return pid is not None and "-c shared_preload_libraries=" in title_of(pid)


def stopping_seconds(paths: ServicePaths, pid: int) -> float:
    """Return for how long a server has been shutting down: since then its lock file is not written any more."""
    if _state(paths.pid_file, pid) != b"stopping":
        return 0.0
    try:
        return time.time() - paths.pid_file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _says_ready(pid_file: Path, pid: int) -> bool:
    return _state(pid_file, pid) == b"ready"


def _state(pid_file: Path, pid: int) -> bytes:
    """Return what the lock file says of this server: line 1 is its pid, line 8 its state.

    It is empty when there is none, and when the file is still that of a killed server.
    """
    try:
        lines = files.read_bytes(pid_file).splitlines()
        return lines[7].strip() if int(lines[0]) == pid else b""
    except (*GONE, IndexError, ValueError):
        return b""


def _await_word(paths: ServicePaths, pid: int, timeout_seconds: float) -> None:
    """Wait for at most `timeout_seconds` until a starting server is ready or has ended."""
    pid_file, deadline = paths.pid_file, time.monotonic() + timeout_seconds
    with signals.handle_of(pid) as handle:
        while handle is not None and not _says_ready(pid_file, pid) and time.monotonic() < deadline:
            if signals.has_ended(handle, _PAUSE_SECONDS):
                return


def progress(pid: int, doing: str) -> str:
    """Return a text that changes while recovery or a shutdown makes progress: segments, positions, and work.

    The checkpointer writes the checkpoint at the end of both. A client that only answers lets its walsender work.
    """
    said, work = list[str](), 0
    for child, title in children_of(pid):
        role = title.rpartition(": ")[2]
        if role.startswith(("startup", "checkpointer", "archiver")):
            work += work_done(child)
        if role.startswith(("startup ", "archiver ")):
            said.append(role.removeprefix("startup "))
        if role.startswith("walsender "):
            said.append(f"walsender {role.split()[-1]}")  # between are the role and the address of a tenant's client
    return f"{', '.join(said) or doing}, work {work}"


def stop(paths: ServicePaths, timeout_seconds: float) -> bool:
    """Request a fast shutdown of the server; True when it has ended. May run again."""
    return _end(paths, signal.SIGINT, timeout_seconds)


def kill(paths: ServicePaths, timeout_seconds: float) -> bool:
    """Shut the server down immediately, and kill all processes in its directories; True when all have ended.

    These include an initdb whose caller was killed.
    """
    _end(paths, signal.SIGQUIT, timeout_seconds)
    return wait_until(lambda: _all_killed(paths), timeout_seconds)


def _all_killed(paths: ServicePaths) -> bool:
    left = {*processes_in(paths.root), *processes_in(paths.data), *filter(None, [running(paths)])}
    for pid in left:
        signals.send(pid, signal.SIGKILL, partial(_belongs, paths, pid))
    return not left


def _belongs(paths: ServicePaths, pid: int) -> bool:
    return works_in(pid, paths.data) or works_in(pid, paths.root) or find_server(paths) == pid


def reload(paths: ServicePaths) -> None:
    """Make the server reload its configuration. Raises Unavailable when it does not run."""
    pid = find_server(paths)
    if pid is None or not signals.send(pid, signal.SIGHUP, lambda: find_server(paths) == pid):
        raise Unavailable("SERVER_UNREACHABLE", f"The server of service {paths.service_id} is not running")


def _end(paths: ServicePaths, number: signal.Signals, timeout_seconds: float) -> bool:
    pid = find_server(paths)
    if pid is None:
        return True
    signals.send(pid, number, lambda: find_server(paths) == pid, wait_seconds=timeout_seconds)
    return running(paths) is None
