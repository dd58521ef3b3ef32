"""Downloads from the off-host archive for forks, each in a separate thread that a later call finds again."""

import threading
from dataclasses import dataclass, field

from ramet.archive.object_store import Bucket
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.host.paths import make_passage
from ramet.backends.local.off_host.download import Download
from ramet.backends.local.restore import fetched
from ramet.backends.local.restore.capture import is_captured
from ramet.backends.local.restore.fetched import Place, State
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.volumes.pool import Pool
from ramet.errors import Failed

_MB = 1_000_000


@dataclass
class Fetching:
    """The downloads of this process."""

    instances: Instances
    pool: Pool
    bucket: Bucket
    _threads: dict[str, threading.Thread] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fetch(self, child: Server, source: Source, timeout_seconds: float) -> str | None:
        """Download for at most `timeout_seconds`; return how far it is, None when all is there."""
        if is_captured(self.instances.paths(child.service_id)):
            return None
        place = fetched.place_of(self.instances.layout, child.service_id, source.parent.service_id)
        state = place.read()
        if state is None or not (state.is_complete or state.failure):
            self._thread(place, source).join(timeout_seconds)
            state = place.read()
        if state is None:
            return "The base backup is looked up"
        if state.failure is not None:
            raise Failed(state.failure.code, state.failure.message, state.failure.details)
        return None if state.is_complete else _shown(state)

    def _thread(self, place: Place, source: Source) -> threading.Thread:
        with self._lock:
            known = self._threads.get(place.root.name)
            if known is not None and known.is_alive():
                return known
            make_passage(fetched.directory_of(self.instances.layout))
            place.root.mkdir(mode=0o700, exist_ok=True)
            installation = self.instances.installation_of(source.parent)
            download = Download(place, source, self.pool, self.instances, installation, self.bucket)
            thread = threading.Thread(target=download.run, name=f"fetch-{place.root.name}", daemon=True)
            self._threads = {name: one for name, one in self._threads.items() if one.is_alive()}
            self._threads[place.root.name] = thread
            thread.start()
            return thread


def _shown(state: State) -> str:
    at_most = f" of {'at most ' if state.is_bound else ''}{state.total_bytes / _MB:.1f}" if state.total_bytes else ""
    text = f"{state.done_bytes / _MB:.1f}{at_most} MB from the off-host archive"
    return f"{text}: {state.problem}" if state.problem else text
