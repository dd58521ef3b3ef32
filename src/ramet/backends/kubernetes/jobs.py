"""Jobs of the operator that make a volume: how far they are, and why they failed."""

import re

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
    pods = _pods(place, service_id)
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    if failed:
        reason = place.job_logs.reason(failed[-1])
        if len(failed) >= _FAILED_PODS or (final is not None and final.search(reason)):
            raise Failed("RECOVERY_FAILED", f"{what} failed", reason)
    doing = "; ".join(pod.progress for pod in pods) or "the operator's job has not begun"
    runs = any(pod.status.phase == "Running" for pod in pods)
    return doing if runs else with_warning(f"{doing}.", place.warnings.about(service_id))


def advance(place: Place, service_id: str) -> str:
    """Say how far the job that runs is, as its log and its volume tell; empty when none does."""
    running = (pod for pod in _pods(place, service_id) if pod.status.phase == "Running")
    return "; ".join(filter(None, map(place.job_logs.advance, running)))


def _pods(place: Place, service_id: str) -> list[Pod]:
    return [pod for pod in place.pods.of_service(service_id) if names.JOB_LABEL in pod.metadata.labels]
