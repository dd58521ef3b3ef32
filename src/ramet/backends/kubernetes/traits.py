"""What a server has beside what the control plane knows of it; it is noted with its Cluster."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ramet.backends.kubernetes import names


class CopyRight(StrEnum):
    """Whether another Ramet may stream from a server. Of one that may no more the role is still to be removed."""

    NONE = "none"
    ADMITTED = "admitted"
    REFUSED = "refused"


@dataclass(frozen=True)
class Traits:
    """`at_least` are settings that are not smaller than those of the server that the data comes from.

    A standby would not start with smaller ones, nor would a server that has prepared transactions. `copy` says whether
    another Ramet may stream from it.
    """

    at_least: Mapping[str, int] = field(default_factory=dict)
    copy: CopyRight = CopyRight.NONE

    @property
    def admits_copy(self) -> bool:
        """Whether another Ramet may stream from the server."""
        return self.copy is CopyRight.ADMITTED

    @property
    def annotations(self) -> dict[str, str]:
        """What is noted with the Cluster."""
        found = {names.LEAST_ANNOTATION: json.dumps(self.at_least, sort_keys=True)} if self.at_least else {}
        return {**found, **({names.COPY_ANNOTATION: self.copy.value} if self.copy is not CopyRight.NONE else {})}


def noted_traits(annotations: Mapping[str, str]) -> Traits:
    """Return what was noted with an object."""
    noted: dict[str, int] = json.loads(annotations.get(names.LEAST_ANNOTATION, "{}"))
    return Traits(noted, CopyRight(annotations.get(names.COPY_ANNOTATION, CopyRight.NONE)))
