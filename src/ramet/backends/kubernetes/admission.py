"""The scheduler of the cluster decides where there is room for a pod."""

from dataclasses import dataclass

from ramet.model.capacity import Capacity


@dataclass(frozen=True)
class KubernetesAdmission:
    """Leaves it to the cluster; obeys ramet.backends.interface.admission.Admission."""

    def capacity(self) -> Capacity:
        """Return no bounds."""
        return Capacity()
