"""What the API server last said of all objects of a kind. One watch keeps it current; reading it costs no request."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from ramet.backends.kubernetes import names
from ramet.backends.kubernetes.api import Api
from ramet.backends.kubernetes.resources import Cluster, Pod
from ramet.errors import Unseen

_log = logging.getLogger(__name__)
_Kind = TypeVar("_Kind", Cluster, Pod)
_FIRST_LIST_SECONDS = 10.0
_STALE_SECONDS = 30.0
_RETRY_SECONDS = 1.0
_OURS: Mapping[str, None] = {names.SERVICE_LABEL: None}  # objects that have the label, with any value


class Watched(Generic[_Kind]):
    """The objects of a kind that belong to services. The watch begins with the first question.

    It calls `gone` with the id of a service whose object is there no more, in its own thread.
    """

    def __init__(self, api: Api, kind: type[_Kind], gone: Callable[[str], None] = lambda _: None) -> None:
        self._api = api
        self._kind: type[_Kind] = kind
        self._gone = gone
        self._objects: dict[str, _Kind] = {}
        self._changed = threading.Condition()
        self._version: str | None = None
        self._lost_at: float | None = time.monotonic()
        self._why_lost = ""
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def get(self, name: str) -> _Kind | None:
        """Return an object; None when there is none. Raises Unseen while the API server cannot be asked."""
        self._check()
        return self._objects.get(name)

    def of_service(self, service_id: str) -> list[_Kind]:
        """Return the objects of a service. Raises Unseen while the API server cannot be asked."""
        self._check()
        with self._changed:
            known = list(self._objects.values())
        found = [one for one in known if one.metadata.labels.get(names.SERVICE_LABEL) == service_id]
        return sorted(found, key=lambda one: one.metadata.name)

    def stop(self) -> None:
        """End the watch with its next event."""
        self._stopped.set()

    def _check(self) -> None:
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._follow, name=f"watch-{self._kind.__name__}", daemon=True)
                thread.start()
                self._thread = thread
            self._changed.wait_for(lambda: self._version is not None, _FIRST_LIST_SECONDS)
        lost_at = self._lost_at
        if self._version is None or (lost_at is not None and time.monotonic() - lost_at > _STALE_SECONDS):
            raise Unseen("KUBERNETES_UNREACHABLE", "The API server of Kubernetes cannot be asked now", self._why_lost)

    def _follow(self) -> None:
        while not self._stopped.is_set():
            try:
                self._list()
                for event, found in self._api.watch(self._kind, _OURS, self._version):
                    self._take(event, found)
                    if self._stopped.is_set():
                        return
            except Exception as error:  # noqa: BLE001 - the thread must survive whatever an answer holds
                self._lost(error)

    def _lost(self, error: Exception) -> None:
        self._why_lost = str(error)
        if self._lost_at is None and not self._stopped.is_set():
            self._lost_at = time.monotonic()
            _log.warning("the watch of %s has ended: %s", self._kind.__name__, error)
        self._stopped.wait(_RETRY_SECONDS)

    def _list(self) -> None:
        found, version = self._api.find_version(self._kind, _OURS)
        with self._changed:
            known, self._objects = self._objects, {one.metadata.name: one for one in found}
            self._version, self._lost_at = version, None
            self._changed.notify_all()
        for name in known.keys() - self._objects.keys():
            self._gone(known[name].metadata.labels[names.SERVICE_LABEL])

    def _take(self, event: str, found: _Kind) -> None:
        with self._changed:
            if event == "DELETED":
                self._objects.pop(found.metadata.name, None)
            elif event in ("ADDED", "MODIFIED"):
                self._objects[found.metadata.name] = found
            self._lost_at = None
        if event == "DELETED":
            self._gone(found.metadata.labels[names.SERVICE_LABEL])
