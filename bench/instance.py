"""The Ramet that is measured: `ramet up` on its own data directory, and what a bench reads of its files."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.api import Api
from harness import instance as harness
from ramet.backends.local.host.paths import ServicePaths

# Room for what fills 10 GB, its WAL and the archive of that; blocks that are not written take no disk.
_IMAGE_GBS = 64


class Instance(harness.Instance):
    """A running Ramet."""

    def api(self) -> Api:
        """Return a separate connection."""
        return Api(self.credentials)

    def paths(self, service_id: str) -> ServicePaths:
        """Return the places of a service."""
        return self.backend.instances.paths(service_id)

    @property
    def pool(self) -> Path:
        """The directory that holds the services."""
        return self.backend.pool.path

    def milliseconds(self, service_id: str) -> dict[str, float]:
        """Return the milliseconds of each step of the fork or create of a service."""
        query = (
            "SELECT e.step, e.seconds FROM operation_event e JOIN operation o ON o.id = e.operation_id"
            " WHERE o.subject = ? AND o.procedure IN ('fork', 'create') ORDER BY e.id"
        )
        return {step: 1000 * seconds for step, seconds in self.rows(query, service_id)}


@contextlib.contextmanager
def instance(root: Path, driver: str = "auto", **variables: str) -> Iterator[Instance]:
    """Run Ramet in a directory that is made for it, and leave nothing behind."""
    if root.exists():
        stale = Instance(root)  # what a run that was killed has left
        stale.run("down", "--data", str(stale.data))
        stale.remove()
    root.mkdir(parents=True, mode=0o711)
    room_gbs = shutil.disk_usage(root).free // 1024**3 - 1
    image = {"RAMET_IMAGE_GBS": str(max(1, min(_IMAGE_GBS, room_gbs)))}
    made = Instance(root, {"RAMET_LOG_LEVEL": "WARNING", **image, **variables})
    try:
        made.up("--storage-driver", driver)
        yield made
    finally:
        made.remove()
