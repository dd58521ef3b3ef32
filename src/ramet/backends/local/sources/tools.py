"""Running PostgreSQL's tools: as the servers' user, without a password in sight, with their words as they come."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psycopg

from ramet.backends.local.host.children import ENVIRONMENT
from ramet.backends.local.host.system_user import Account
from ramet.backends.local.process.signals import end_all_in
from ramet.backends.local.server.jobs import cpu_count
from ramet.errors import Failed, Unavailable

_KEPT_LINES, _KEPT_LAST_LINES = 40, 4
_SHOWN_CHARACTERS = 1500
_LINE_CHARACTERS = 8192
_MOST_JOBS = 4
# What pg_restore says at its end, and for each statement after it has lost its connection.
_IGNORED = "errors ignored on restore"
_LOST = ("no connection to the server", "server closed the connection", "FATAL:")
_LOCKS = "max_locks_per_transaction"
MORE_LOCKS = "Raise max_locks_per_transaction in the source, for example to 1024, and restart it."


@dataclass(frozen=True)
class Finished:
    """A program that has ended: its exit status and the problems that it reported."""

    status: int
    problems: Sequence[str]


@dataclass(frozen=True)
class Workplace:
    """The directory of one import or copy, in which its programs work, and the user that they run as."""

    directory: Path
    account: Account

    def run(
        self, command: Sequence[str], variables: dict[str, str], heard: Callable[[str], None] = lambda _: None
    ) -> Finished:
        """Run a program to its end; `heard` gets each line that is no problem."""
        lent, identity = self.account.lend(list(command))
        problems: list[str] = []
        with subprocess.Popen(
            lent, env={**ENVIRONMENT, **variables}, cwd=self.directory, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
            umask=0o077, **identity,
        ) as process:  # fmt: skip
            for line in _lines(process.stderr) if process.stderr else ():
                if _is_problem(line, problems):
                    del problems[_KEPT_LINES:-_KEPT_LAST_LINES]
                    problems.append(line.rstrip())
                else:
                    heard(line)
        return Finished(process.returncode, problems)

    def end_programs(self) -> None:
        """Kill the programs of an earlier attempt. Raises Unavailable while they are ending."""
        if not end_all_in(self.directory):
            raise Unavailable("IMPORT_ENDING", "Programs of an earlier import are still ending")


def check(finished: Finished, code: str, message: str) -> None:
    """Raise Failed with what a program reported, unless it ended well."""
    if finished.status != 0:
        words = "\n".join(finished.problems)[:_SHOWN_CHARACTERS] or f"exit status {finished.status}"
        raise Failed(code, message, words)


def check_dump(finished: Finished, source: object) -> None:
    """Raise Failed with what pg_dump reported of a source, unless it ended well."""
    if finished.status != 0 and any(line.startswith("HINT:") and _LOCKS in line for line in finished.problems):
        raise Failed("DUMP_FAILED", f"pg_dump cannot lock all tables of {source} at once", MORE_LOCKS)
    check(finished, "DUMP_FAILED", f"pg_dump could not read {source}")


def lacks_locks(error: psycopg.Error) -> bool:
    """Tell whether a transaction would lock more than fits into the lock table of its server."""
    return _LOCKS in (error.diag.message_hint or "")


def refused_statements(finished: Finished) -> list[str]:
    """Return what the server has refused of what a pg_restore went on after. Raises Failed unless it did all else."""
    reached_end = finished.status == 0 or any(_IGNORED in line for line in finished.problems)
    refused = [line for line in finished.problems if "error: could not execute" in line]
    if not reached_end or any(words in line for line in finished.problems for words in _LOST):
        check(Finished(finished.status or 1, finished.problems), "LOAD_FAILED", "pg_restore was interrupted")
    return refused


def job_count() -> int:
    """Return how many jobs a program of PostgreSQL works with: one for each CPU of this process, within a limit."""
    return min(_MOST_JOBS, cpu_count())


def _lines(output: IO[str]) -> Iterator[str]:
    """Yield the lines of an output, of a long one its beginning: a source may send an error or a notice of 1 GB."""
    begins = True
    for part in iter(lambda: output.readline(_LINE_CHARACTERS), ""):
        if begins:
            yield part
        begins = part.endswith("\n")


def _is_problem(line: str, before: list[str]) -> bool:
    """Tell a problem, and the lines that explain one, from what --verbose says."""
    _, _, text = line.partition(": ")
    if text.startswith(("error:", "fatal:", "detail:", "hint:", "warning:")):
        return True
    return bool(before) and line.startswith(("Command was:", "DETAIL:", "HINT:", "CONTEXT:", "LINE "))
