"""What Kubernetes warns of about the objects of a service: why its server does not begin."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from ramet.backends.kubernetes import names
from ramet.backends.kubernetes.api import Api
from ramet.backends.kubernetes.kept import Kept
from ramet.backends.kubernetes.resources import EventObject
from ramet.errors import Failed, Unavailable

_LOOK_SECONDS = 5.0
# What was warned of longer ago is about an earlier start. A job that cannot make its pod tries again after ten minutes.
_RECENT = timedelta(minutes=15)
_MOST_CHARACTERS = 300
_NO_CLASS = re.compile(r'storageclass\S* "([^"]+)" not found')


@dataclass(frozen=True)
class Warnings:
    """The warnings in the namespaces of services, which are listed now and then; none where they may not be."""

    api: Api
    _kept: Kept[list[EventObject]] = field(default_factory=Kept)

    def about(self, service_id: str) -> str:
        """Return the newest warning about a service's Cluster, job, volume or pod, shortened; empty without one.

        Raises Failed for a storage class that does not exist: no waiting helps.
        """
        found = [one for one in self._listed(service_id) if one.is_about(names.cluster_name(service_id))]
        recent = [one for one in found if one.last_at > datetime.now(UTC) - _RECENT]
        for one in recent:
            if missing := _NO_CLASS.search(one.message):
                raise Failed(
                    "STORAGE_CLASS_MISSING",
                    f"The volume of service {service_id} is to have storage class {missing[1]}, which does not exist",
                    "Create it, or set RAMET_KUBERNETES_STORAGE_CLASS to one that 'ramet doctor' names, and try again.",
                )
        if not recent:
            return ""
        newest = max(recent, key=lambda one: one.last_at)
        said = f"{newest.reason}: {' '.join(newest.message.split())}"
        return said if len(said) <= _MOST_CHARACTERS else f"{said[:_MOST_CHARACTERS]}…"

    def _listed(self, service_id: str) -> list[EventObject]:
        namespace = self.api.namespaces.of_service(service_id)
        return self._kept.of(namespace, _LOOK_SECONDS, partial(self._list, namespace))

    def _list(self, namespace: str) -> list[EventObject]:
        try:
            return self.api.find_warnings(namespace)
        except (Failed, Unavailable):
            return []
