"""Connection poolers: a PgBouncer for each, in pods of its own, behind a Service of its own."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ramet.backends.interface.values import Server, Sessions
from ramet.backends.kubernetes import names, pgbouncer, probe
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.pgbouncer import CONTAINER
from ramet.backends.kubernetes.resources import ConfigMap, Deployment, Object, Pod, SecretObject, Service
from ramet.backends.local.sql.connections import DATABASE
from ramet.backends.local.sql.service_roles import ensure_pooler_role_of
from ramet.endpoints import pooler_host
from ramet.errors import Failed, Invalid, Unavailable
from ramet.model.passwords import new_password, scram_verifier

_KINDS: tuple[type[Object], ...] = (Deployment, Service, ConfigMap)
_ACCEPTS = "SELECT datallowconn FROM pg_database WHERE datname = %s"
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_CERTIFICATE_SECONDS = 86_400.0
# What a container waits for that does not pass by itself.
_HOPELESS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerError", "CrashLoopBackOff")


@dataclass(frozen=True)
class KubernetesPoolers:
    """Poolers; obeys ramet.backends.interface.poolers.Poolers."""

    place: Place
    _due_at: dict[str, float] = field(default_factory=dict)

    def check(self) -> str:
        """Have poolers always, of a PgBouncer that keeps prepared statements."""
        return ""

    def check_database(self, server: Server) -> None:
        with self.place.connect(server) as connection:
            found = connection.execute(_ACCEPTS, (DATABASE,)).fetchone()
        if found != (True,):
            raise Invalid(
                "DATABASE_MISSING",
                f"Service {server.service_id} has no database {DATABASE} that accepts connections, which poolers need",
                f"Create it (CREATE DATABASE {DATABASE}), or allow connections to it.",
            )

    def start(self, servers: Sequence[Server], port: int) -> None:
        """Make the objects of the pooler, or change them; return when it asks a client for a password over TLS."""
        first = servers[0]
        writing = first.service_id if first.primary is None else first.primary.service_id
        ensure_pooler_role_of(self.place.tunnels.paths(writing, first.pg_major))
        if first.primary is None:
            self.check_database(first)
        host = pooler_host(first.host, first.service_id)
        self.place.api.apply(ConfigMap, pgbouncer.files(servers, scram_verifier(new_password()).reveal()))
        certificate = self._certificate(first.service_id)
        self.place.api.apply(Deployment, pgbouncer.deployment(servers, self.place.site, certificate))
        self.place.api.apply(Service, pgbouncer.endpoint(servers, self.place.site, port, host))
        self._await_answer(first)

    def stop(self, service_id: str) -> None:
        """Remove the objects of the pooler; its pods end with their sessions."""
        self._due_at.pop(service_id, None)
        for kind in _KINDS:
            self.place.api.delete(kind, names.pooler_name(service_id))

    def keep_certificate(self, owner_id: str) -> None:
        """Replace the pods of a pooler, if it is there, when the operator has renewed its certificate; look once a day.

        PgBouncer loads the certificate for its clients when it starts. The operator renews it a week before its end.
        """
        pods = [one for one in self._pods(owner_id) if one.metadata.deleted_at is None]
        if not pods or time.monotonic() < self._due_at.get(owner_id, 0.0):
            return
        known = {names.CERTIFICATE_ANNOTATION: self._certificate(owner_id)}
        if any(known.items() - one.metadata.annotations.items() for one in pods):
            change = {"spec": {"template": {"metadata": {"annotations": known}}}}
            self.place.api.patch(Deployment, names.pooler_name(owner_id), change)
        self._due_at[owner_id] = time.monotonic() + _CERTIFICATE_SECONDS

    def serves(self, service_id: str) -> bool:
        """Tell what the watch of pods says: the API server is not asked for that."""
        return any(one.is_ready and one.metadata.deleted_at is None for one in self._pods(service_id))

    def sessions(self, server: Server) -> Sessions | None:
        """Return None: which sessions are those of clients is not known here, so none of the services is idle."""
        return None

    def _pods(self, owner_id: str) -> list[Pod]:
        return [one for one in self.place.pods.of_service(owner_id) if names.POOLER_LABEL in one.metadata.labels]

    def _certificate(self, owner_id: str) -> str:
        """Return the digest of the certificate that the operator has issued for a server and its pooler."""
        secret = self.place.api.get(SecretObject, names.server_certificate_name(owner_id))
        return "" if secret is None else pgbouncer.digest_of(secret.text("tls.crt"))

    def _await_answer(self, first: Server) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers(first):
            pods = self._pods(first.service_id)
            said = "; ".join(one.progress for one in pods) or "Kubernetes has made no pod yet"
            if any(reason in said for reason in _HOPELESS):
                raise Failed(
                    "POOLER_SILENT",
                    f"The pooler of {first.service_id} cannot start",
                    f"{said}. {self._log(pods)}".strip(),
                )
            if time.monotonic() > deadline:
                wrong = f"The pooler of {first.service_id} does not answer clients"
                raise Unavailable("POOLER_SILENT", wrong, f"{said}. {self._log(pods)}".strip())
            time.sleep(_LOOK_SECONDS)

    def _log(self, pods: Sequence[Pod]) -> str:
        """Return what the program has said last; nothing where it was never started."""
        with suppress(Failed, Unavailable):
            found = (self.place.api.read_log(one.metadata.name, tail_lines=5, container=CONTAINER) for one in pods)
            return "\n".join(line for lines in found for line in lines)
        return ""

    def _answers(self, first: Server) -> bool:
        """Ask each ready pod from the pod of the server: the one of an earlier configuration may still be there."""
        ready = [one for one in self._pods(first.service_id) if one.is_ready and one.metadata.deleted_at is None]
        return bool(ready) and all(
            probe.asks_password(self.place, first.service_id, one.status.pod_ip) for one in ready
        )
