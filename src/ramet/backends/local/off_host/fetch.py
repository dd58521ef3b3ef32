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
_Begun = tuple[Download, threading.Thread]


@dataclass
class Fetching:
    """The downloads of this process."""

    instances: Instances
    pool: Pool
    bucket: Bucket
    _begun: dict[str, _Begun] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fetch(self, child: Server, source: Source, timeout_seconds: float) -> str | None:
        """Download for at most `timeout_seconds`; return how far it is, None when all is there."""
        if is_captured(self.instances.paths(child.service_id)):
            return None
        place = fetched.place_of(self.instances.layout, child.service_id, source.parent.service_id)
        state, failure = place.read(), None
        if state is None or not (state.is_complete or state.failure):
            download, thread = self._at_work(place, source)
            thread.join(timeout_seconds)
            state, failure = place.read(), download.failure
        if failure is None and state is not None:
            failure = state.failure
        if failure is not None:
            raise Failed(failure.code, failure.message, failure.details)
        if state is None:
            return "The base backup is looked up"
        return None if state.is_complete else _shown(state)

    def _at_work(self, place: Place, source: Source) -> _Begun:
        """Return the download that is under way, or that has failed and could not record why; else begin one."""
        with self._lock:
            self._begun = {name: one for name, one in self._begun.items() if _counts(*one)}
            if place.root.name in self._begun:
                return self._begun[place.root.name]
            make_passage(fetched.directory_of(self.instances.layout))
            place.root.mkdir(mode=0o700, exist_ok=True)
            installation = self.instances.installation_of(source.parent)
            download = Download(place, source, self.pool, self.instances, installation, self.bucket)
            thread = threading.Thread(target=download.run, name=f"fetch-{place.root.name}", daemon=True)
            self._begun[place.root.name] = download, thread
            thread.start()
            return download, thread


def _counts(download: Download, thread: threading.Thread) -> bool:
    """Tell whether a download is under way, or has failed and was not discarded since."""
    return thread.is_alive() or (download.failure is not None and not download.place.is_ending)


def _shown(state: State) -> str:
    at_most = f" of {'at most ' if state.is_bound else ''}{state.total_bytes / _MB:.1f}" if state.total_bytes else ""
    text = f"{state.done_bytes / _MB:.1f}{at_most} MB from the off-host archive"
    return f"{text}: {state.problem}" if state.problem else text
