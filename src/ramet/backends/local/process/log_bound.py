"""A size limit for the files that the logger process of a server writes, enforced by the kernel.

PostgreSQL appends to one file for each minute, however often it rotates, and RLIMIT_FSIZE keeps the logger from writing
more to it. So no tenant can fill the storage through the log, whether or not the control plane runs.
"""

import contextlib
import resource
import shutil
import subprocess
from pathlib import Path

from ramet.backends.local.host.children import adopt
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.host.system_user import Account
from ramet.backends.local.process.identity import children_of, find_server
from ramet.backends.local.process.log_files import FILE_BYTES

_LIMIT = "Max file size"


def bound_log(paths: ServicePaths, account: Account) -> None:
    """Limit the log files of a running server to `FILE_BYTES` each; lines beyond that are lost.

    It runs repeatedly, because PostgreSQL restarts a logger that died. Like all processes of a server, the logger
    ignores SIGXFSZ.
    """
    server = find_server(paths)
    for pid, title in children_of(server) if server is not None else ():
        if title.rpartition(": ")[2].strip() == "logger" and not _is_bound(pid):
            _bind(pid, account)


def _is_bound(pid: int) -> bool:
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return True
    return any(line.startswith(_LIMIT) and line.split()[3] == str(FILE_BYTES) for line in lines)


def _bind(pid: int, account: Account) -> None:
    try:
        with contextlib.suppress(ProcessLookupError):
            _soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_BYTES, hard))
    except PermissionError:
        # Root in a container may lack CAP_SYS_RESOURCE; a process may always limit those of the same user.
        _bind_as(account, pid)


def _bind_as(account: Account, pid: int) -> None:
    program = shutil.which("prlimit", path="/usr/bin:/bin")
    if program is None:
        return
    command, identity = account.lend([program, f"--pid={pid}", f"--fsize={FILE_BYTES}:"])
    quiet = subprocess.DEVNULL
    adopt(subprocess.Popen(command, cwd="/", stdin=quiet, stdout=quiet, stderr=quiet, **identity))
