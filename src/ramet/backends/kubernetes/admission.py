"""The scheduler of the cluster decides where there is room for a pod."""

from dataclasses import dataclass


@dataclass(frozen=True)
class KubernetesAdmission:
    """Leaves it to the cluster; obeys ramet.backends.interface.admission.Admission."""

    def startable(self) -> int | None:
        """Return None."""
        return None
