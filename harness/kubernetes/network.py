"""Programs that need the network: one that waits for it without end is ended, and the message says what it needed."""

import os
import re
import signal
import subprocess
from contextlib import suppress
from typing import Any

import psutil

from harness.kubernetes.versions import run_ended

_IDLE_SECONDS = 180.0
_LOOK_SECONDS = 5.0
# What Go, apt-get and uv say where a registry does not answer, and where this machine is too small.
_LACKING = re.compile(
    "no such host|could not resolve|temporary failure|failed to lookup|unreachable|no route to host|could not connect"
    "|connection refused|connection reset|timed out|i/o timeout|tls handshake timeout|timeout exceeded"
    "|deadline exceeded|unexpected eof|unable to fetch|failed to fetch"
    "|too many requests|bad gateway|service unavailable|internal server error|certificate verif|x509:"
    "|no space left|signal: killed|cannot allocate memory",
    re.IGNORECASE,
)


class NotAvailable(RuntimeError):
    """Something that this machine lacks, or cannot reach: nothing of the project is wrong."""


def run_over_network(needs: str, *words: str, idle_seconds: float = _IDLE_SECONDS, **options: Any) -> str:
    """Run a program that needs something of other machines, and return its output.

    Raise RuntimeError with the end of its errors, which is NotAvailable where they say that another machine does not
    answer, or this one is too small. Once it and its children have neither computed, read nor written for
    `idle_seconds`, that says what it needs.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdout=pipe, stderr=pipe, text=True, stdin=subprocess.DEVNULL, start_new_session=True, **options
    ) as process:
        try:
            ended = _await_end(process, idle_seconds)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    if ended is None:
        raise NotAvailable(_stalled(words, needs, idle_seconds))
    try:
        return run_ended(words, process.returncode, *ended)
    except RuntimeError as error:
        _command, _, said = str(error).partition(f" ended with {process.returncode}:\n")
        if _LACKING.search(said):
            raise NotAvailable(f"{error}\nIt needs the network, for {needs}, memory and disk space") from error
        raise


def _await_end(process: subprocess.Popen[str], idle_seconds: float) -> tuple[str, str] | None:
    """Return the output and the errors of a program; None once it has done nothing for so long."""
    done, idle = _work_of(process.pid), 0.0
    look_seconds = min(_LOOK_SECONDS, idle_seconds / 4)
    while idle < idle_seconds:
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=look_seconds)
        now = _work_of(process.pid)
        idle = idle + look_seconds if now == done else 0.0
        done = now
    return None


def _stalled(words: tuple[str, ...], needs: str, seconds: float) -> str:
    return (
        f"{' '.join(words)[:200]} has done nothing for {seconds:g} s: it needs the network, for {needs};"
        " see whether this machine reaches that, and run this again: what is built already is kept"
    )


def _work_of(pid: int) -> frozenset[tuple[float, ...]]:
    """Return what a process and its children have done so far: seconds of CPU, bytes read and written."""
    found = set()
    with suppress(psutil.Error):
        parent = psutil.Process(pid)
        for one in (parent, *parent.children(recursive=True)):
            with suppress(psutil.Error):
                io = one.io_counters()
                found.add((one.pid, sum(one.cpu_times()[:2]), io.read_chars, io.write_chars))
    return frozenset(found)
