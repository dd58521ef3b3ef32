"""Running external programs: no standard input, captured output in English, a time limit."""

import os
import subprocess
from collections.abc import Sequence
from typing import Any

from ramet.errors import Failed

_TAIL_CHARACTERS = 800


def complete(argv: Sequence[str], *, timeout_seconds: float = 30, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, whatever its exit status; `options` are those of subprocess.

    Without `env` its messages are in English, which callers read: C.UTF-8 would leave them in that of LANGUAGE.
    """
    options.setdefault("env", {**os.environ, "LC_ALL": "C"})
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_seconds, check=False, **options
    )


def run(argv: Sequence[str], *, timeout_seconds: float = 60) -> str:
    """Run a program and return its output. Raises Failed with its arguments, exit status and the end of stderr."""
    command = " ".join(argv)
    try:
        result = complete(argv, timeout_seconds=timeout_seconds)
    except FileNotFoundError as error:
        raise Failed("PROGRAM_MISSING", f"The program {argv[0]} is not installed", f"Needed for: {command}") from error
    except subprocess.TimeoutExpired as error:
        raise Failed("PROGRAM_TIMED_OUT", f"{command} did not finish within {timeout_seconds:g} seconds") from error
    if result.returncode != 0:
        tail = result.stderr.strip()[-_TAIL_CHARACTERS:]
        raise Failed("PROGRAM_FAILED", f"{command} failed with exit status {result.returncode}", tail)
    return result.stdout
