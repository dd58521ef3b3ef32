"""Jobs of the operator that make a volume: how far they are, and why they failed."""

import re

import msgspec

from ramet.backends.kubernetes import names
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import Pod
from ramet.errors import Failed
from ramet.model.progress import with_warning

_FAILED_PODS = 3


def progress(place: Place, service_id: str, what: str, final: re.Pattern[str] | None = None) -> str:
    """Say what the job of a new Cluster does, and what Kubernetes warns of before it runs.

    Raises Failed when it failed repeatedly, or with an error that is final: the Cluster itself would never say so.
    `what` the job does begins that sentence.
    """
    pods = [pod for pod in place.pods.of_service(service_id) if names.JOB_LABEL in pod.metadata.labels]
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    if failed:
        reason = _reason(place, failed[-1])
        if len(failed) >= _FAILED_PODS or (final is not None and final.search(reason)):
            raise Failed("RECOVERY_FAILED", f"{what} failed", reason)
    doing = "; ".join(pod.progress for pod in pods) or "the operator's job has not begun"
    runs = any(pod.status.phase == "Running" for pod in pods)
    return doing if runs else with_warning(f"{doing}.", place.warnings.about(service_id))


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


def _reason(place: Place, pod: Pod) -> str:
    """Return why a job failed: the last error of PostgreSQL in its log, else that of the instance manager."""
    container = pod.metadata.labels[names.JOB_LABEL]
    own, others = "", ""
    for text in place.api.read_log(pod.metadata.name, tail_lines=2000, container=container):
        try:
            line = _DECODER.decode(text)
        except msgspec.MsgspecError:
            continue
        if line.record is not None and line.record.error_severity in ("FATAL", "PANIC"):
            own = line.record.message
        elif line.level == "error":
            others = f"{line.msg}: {line.error}".strip(": ")
    return own or others or f"Pod {pod.progress}."
