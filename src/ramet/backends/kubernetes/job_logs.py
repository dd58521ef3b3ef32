"""What the operator's jobs say: why one failed, and how far one is that runs."""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec

from ramet.backends.kubernetes import names
from ramet.backends.kubernetes.api import Api
from ramet.backends.kubernetes.kept import Kept
from ramet.backends.kubernetes.resources import Pod
from ramet.errors import Failed, Unavailable

_LOOK_SECONDS = 10.0
_FAILED_LINES, _RUNNING_LINES = 2000, 500
# PostgreSQL says which segment it has got, and every ten seconds how far it is (log_startup_progress_interval).
_ADVANCE = re.compile(r"^restored log file |, elapsed time: ")
_POSTGRESQL = "PostgreSQL: "
_USED = ("sh", "-c", f"du -sk {names.DATA_DIRECTORY} 2>/dev/null | cut -f 1")


class _Record(msgspec.Struct):
    error_severity: str = ""
    message: str = ""


class _Line(msgspec.Struct):
    """A line of a job: PostgreSQL's have a record, those of the instance manager a message and perhaps an error."""

    level: str = ""
    msg: str = ""
    error: str = ""
    record: _Record | None = None


_DECODER = msgspec.json.Decoder(_Line)


@dataclass(frozen=True)
class JobLogs:
    """The logs of jobs. That of one that runs is read now and then, and that of one that failed once."""

    api: Api
    _kept: Kept[str] = field(default_factory=Kept)

    def reason(self, pod: Pod) -> str:
        """Return why a job failed: the last error of PostgreSQL in its log, else that of the instance manager."""
        return self._kept.of(_key(pod), float("inf"), partial(self._read_reason, pod))

    def advance(self, pod: Pod) -> str:
        """Say how far a job is that runs; empty when that cannot be read. It stays the same while nothing moves."""
        return self._kept.of(_key(pod), _LOOK_SECONDS, partial(self._read_advance, pod))

    def _read_reason(self, pod: Pod) -> str:
        own, others = "", ""
        for line in self._lines(pod, _FAILED_LINES):
            if line.record is not None and line.record.error_severity in ("FATAL", "PANIC"):
                own = line.record.message
            elif line.level == "error":
                others = f"{line.msg}: {line.error}".strip(": ")
        return own or others or f"Pod {pod.progress}."

    def _read_advance(self, pod: Pod) -> str:
        """Return what PostgreSQL said last, else how much is in the volume: a base backup comes before it starts.

        What cannot be read now stays what it was, because each change counts as progress.
        """
        before = self._kept.last(_key(pod), "")
        with suppress(Failed, Unavailable):
            records = [line.record for line in self._lines(pod, _RUNNING_LINES) if line.record is not None]
            said = [one.message for one in records if _ADVANCE.search(one.message)]
            if said:
                return f"{_POSTGRESQL}{said[-1]}"
            if before.startswith(_POSTGRESQL):
                return before
            used = self.api.run(pod.metadata.name, _USED, container=_container(pod)).strip()
            return f"{int(used) // 1000} MB are in its volume" if used.isdigit() else before
        return before

    def _lines(self, pod: Pod, most: int) -> list[_Line]:
        found = []
        for text in self.api.read_log(pod.metadata.name, tail_lines=most, container=_container(pod)):
            with suppress(msgspec.MsgspecError):
                found.append(_DECODER.decode(text))
        return found


def _key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.name, pod.status.phase


def _container(pod: Pod) -> str:
    return pod.metadata.labels[names.JOB_LABEL]
