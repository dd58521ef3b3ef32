"""`fork-idle --driver kubernetes`: forks in a cluster, beside `kubectl apply` of the same objects.

That of script/kubernetes must be up. Both begin with a snapshot of the parent's volume, and end with the first answer
over TLS.
"""

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.api import Api, Timed, select_one
from bench.bare import bare
from bench.data import fill
from bench.instance import Instance
from bench.options import Options
from bench.report import Report
from harness.kubernetes.contents import apply, kubectl
from harness.kubernetes.layout import NODE_ADDRESS
from harness.kubernetes.objects import find, namespace
from harness.kubernetes.settings import settings_of, some_ports
from ramet.backends.interface.values import Server
from ramet.backends.kubernetes import manifests, names
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.site import Exposure, Site
from ramet.model.environment import Environment
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from ramet.model.size import Size

_MB = 100
_REPEATS = 5
_LOOK_SECONDS = 0.02
_REST_SECONDS = 3.0
_VOLUME_GBS = 4


def bench_forks(options: Options) -> Report:
    """Forks of a parent without writes: by Ramet, and by hand."""
    report, ports = Report("fork-idle"), some_ports()
    with namespace() as at:
        variables = {**settings_of(at), "RAMET_KUBERNETES_VOLUME_GBS": str(_VOLUME_GBS)}
        own = range(ports.start, ports.stop - 10)
        with _running(options.data, own, variables) as running, bare() as means:
            api = running.api()
            for size_mb in options.sizes or (_MB,):
                parent = api.create(f"parent-{size_mb}")
                fill(means.programs, parent.service, size_mb)
                samples: dict[str, list[float]] = {}
                for turn in range(options.repeats or _REPEATS):
                    for method, milliseconds in {
                        **_fork(running, api, parent),
                        **Plain(at, ports.stop - 1 - turn % 10).forked(parent.service),
                    }.items():
                        samples.setdefault(method, []).append(milliseconds)
                for method, values in samples.items():
                    report.add(method, size_mb, values)
                report.ratio(
                    f"now_{size_mb}mb_vs_apply", report.median("now", size_mb), report.median("apply", size_mb)
                )
                api.delete(parent.service_id)
    report.notes.append("apply: kubectl apply of the same snapshot, volume, Service and Cluster, open from the start,")
    report.notes.append("with the parent's passwords; now does what it leaves out: new passwords, slots, quieting.")
    return report


@contextmanager
def _running(root: Path, ports: range, variables: dict[str, str]) -> Iterator[Instance]:
    root.mkdir(parents=True, mode=0o711)
    running = Instance(root, {"RAMET_LOG_LEVEL": "WARNING", **variables}, services=ports)
    try:
        running.up()
        yield running
    finally:
        running.remove()


def _fork(running: Instance, api: Api, parent: Timed) -> dict[str, float]:
    time.sleep(_REST_SECONDS)
    fork = api.fork(parent.service_id, "NOW")
    found = {"now": fork.answered_ms, "now:accepted": fork.accepted_ms, "now:ready": fork.ready_ms}
    found |= {f"now:{step}": took for step, took in running.milliseconds(fork.service_id).items()}
    api.delete(fork.service_id)
    return found


@dataclass(frozen=True)
class Plain:
    """What one would apply without Ramet, in a namespace, with a port of the node."""

    namespace: str
    port: int

    def forked(self, parent: Mapping[str, Any]) -> dict[str, float]:
        """Fork a service's volume; return the milliseconds until its snapshot is there, and until the first answer."""
        time.sleep(_REST_SECONDS)
        service_id = f"p{uuid.uuid4().hex[:9]}"
        seed, name = names.seed_name(service_id), names.cluster_name(service_id)
        begun = time.perf_counter()
        self._apply(manifests.snapshot(service_id, self._site(), seed, names.volume_name(parent["service_id"])))
        while not (find("volumesnapshot", seed, self.namespace) or {}).get("status", {}).get("readyToUse"):
            time.sleep(_LOOK_SECONDS)
        taken = time.perf_counter()
        server = self._server(service_id)
        self._apply(
            manifests.adopted_volume(service_id, self._site(), seed, f"{_VOLUME_GBS}Gi"),
            manifests.endpoint(server, self._site()),
            manifests.cluster(server, self._site(), Phase.OPEN, volume_size=f"{_VOLUME_GBS}Gi"),
        )
        self._await_answer(parent)
        answered = time.perf_counter()
        here = f"--namespace={self.namespace}"
        kubectl("delete", f"cluster.postgresql.cnpg.io/{name}", f"service/{name}", f"volumesnapshot/{seed}", here)
        kubectl("wait", "--for=delete", f"pod/{name}-1", f"pvc/{name}-1", "--timeout=120s", here)
        return {"apply": 1000 * (answered - begun), "apply:snapshot": 1000 * (taken - begun)}

    def _await_answer(self, parent: Mapping[str, Any]) -> None:
        at = {**parent, "endpoint": {"host": NODE_ADDRESS, "port": self.port}}
        while True:
            try:
                select_one(at)
            except psycopg.OperationalError:
                time.sleep(_LOOK_SECONDS)
            else:
                return

    def _apply(self, *objects: Mapping[str, Any]) -> None:
        apply([{**one, "metadata": {**one["metadata"], "namespace": self.namespace}} for one in objects])

    def _site(self) -> Site:
        return Site(
            self.namespace,
            image="ramet.test/postgresql:{major}",
            majors=(15,),
            volume_gbs=_VOLUME_GBS,
            exposure=Exposure.NODEPORT,
        )

    def _server(self, service_id: str) -> Server:
        return Server(
            service_id=service_id,
            service_type=ServiceType.POSTGRES,
            environment=Environment.DEV,
            size=Size(),
            host=NODE_ADDRESS,
            port=self.port,
            pg_major=15,
            verifier=Secret("not used"),
        )
