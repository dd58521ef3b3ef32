"""Which namespace has the objects of a service: one for all services, or one for each project."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ramet.backends.kubernetes import names

PROJECT = "{project}"
ALL = "*"
_NOWHERE = "none"


@dataclass(frozen=True)
class Namespaces:
    """The namespaces of a pattern, such as `ramet` or `ramet-{project}`.

    A service never changes its project, so what is known of it stays true. `find` asks the API server for the
    namespace that has objects of a service which this process has not met.
    """

    pattern: str
    find: Callable[[str], str | None] = lambda _: None
    _known: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_by_project(self) -> bool:
        """Whether each project has a namespace of its own."""
        return PROJECT in self.pattern

    @property
    def watched(self) -> str:
        """The namespace of what is listed and watched for all services; `*` stands for all namespaces."""
        return ALL if self.is_by_project else self.pattern

    def of_project(self, project_id: str) -> str:
        """Return the namespace of a project."""
        return self.pattern.replace(PROJECT, project_id)

    def learn(self, service_id: str, project_id: str) -> str:
        """Note the project of a service, and return its namespace."""
        found = self.of_project(project_id)
        with self._lock:
            self._known[service_id] = found
        return found

    def of_service(self, service_id: str) -> str:
        """Return the namespace of a service; of one that has no objects, a name that no namespace has."""
        if not self.is_by_project:
            return self.pattern
        known = self._known.get(service_id) or self.find(service_id)
        if known is None:
            return self.of_project(_NOWHERE)
        with self._lock:
            return self._known.setdefault(service_id, known)

    def of_object(self, name: str) -> str:
        """Return the namespace of an object that belongs to a service, by its name."""
        return self.of_service(names.service_of(name))

    def of_labels(self, labels: dict[str, str]) -> str:
        """Return the namespace of the objects with these labels; `*` stands for all namespaces."""
        for label in (names.SERVICE_LABEL, names.VOLUME_LABEL):
            if label in labels:
                return self.of_service(labels[label])
        if names.CLUSTER_LABEL in labels:
            return self.of_object(labels[names.CLUSTER_LABEL])
        return self.watched
