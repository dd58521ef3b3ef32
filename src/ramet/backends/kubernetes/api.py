"""Requests to the API server of Kubernetes, within the namespaces of services, and programs run in their pods."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import httpx2
from httpx2.websockets import HTTPXWSException, WebSocketSession
from lightkube import ApiError, Client, KubeConfig
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError
from lightkube.types import PatchType
from wsproto.utilities import LocalProtocolError

from ramet.backends.kubernetes import names
from ramet.backends.kubernetes.namespaces import ALL, Namespaces
from ramet.backends.kubernetes.policies import ApiAddress
from ramet.backends.kubernetes.resources import (
    Cluster,
    ConfigMap,
    EventObject,
    Namespace,
    NetworkPolicy,
    Node,
    Object,
    Pod,
    SnapshotClass,
    StorageClass,
    Volume,
    VolumeSnapshot,
)
from ramet.backends.kubernetes.shared_tls import SharedSocket
from ramet.errors import Failed, Invalid, Unavailable, Unseen

FIELD_MANAGER = "ramet"
_TIMEOUT_SECONDS = 10.0
# The API server ends each watch after a time, and the next one goes on there. One that is silent for longer has lost
# its connection, perhaps without a word.
_WATCH_SECONDS, _SILENT_SECONDS = 30, 40.0
_MESSAGE_BYTES = 1024 * 1024
_NO_LOG = (400, 404)
_CHANNELS = ["v5.channel.k8s.io"]
_ROOT = "/api/v1/namespaces/{}/pods/{}/{}"
# The client loses what a program prints before the connection is its own, and fails if a program ends before its input
# was closed. So a program that reads no input begins when its input ends.
AFTER_INPUT = ("sh", "-c", 'cat >/dev/null; exec "$@"', "sh")
_Kind = TypeVar("_Kind", bound=Object)
_Global = TypeVar("_Global", StorageClass, SnapshotClass, Node)


class Api:
    """The namespaces of services. Errors: Failed for what was refused, Unavailable for what may succeed later.

    `namespace` is a name, or a pattern with {project} for a namespace of each project.
    """

    def __init__(self, config: SingleConfig, namespace: str) -> None:
        timeout = httpx2.Timeout(_TIMEOUT_SECONDS)
        self.namespaces = Namespaces(namespace, self._namespace_of)
        self.client = Client(
            config, timeout=timeout, field_manager=FIELD_MANAGER, trust_env=False, transport=_transport(config)
        )
        parameters = client_adapter.ConnectionParams(timeout, trust_env=False, transport=_transport(config))
        self._http = client_adapter.Client(config, parameters)
        self._made: set[str] = set()

    def apply(self, kind: type[Object], manifest: Mapping[str, Any], namespace: str | None = None) -> None:
        """Make an object as its manifest says, or change it to that (server-side apply).

        It goes to the namespace of the service that its name has, unless another is given.
        """
        name = manifest["metadata"]["name"]
        here = namespace or self.namespaces.of_object(name)
        placed = {**manifest, "metadata": {**manifest["metadata"], "namespace": here}}
        try:
            with _errors(f"{kind.__name__} {name}"):
                self.client.patch(kind, name, placed, namespace=here, patch_type=PatchType.APPLY, force=True)
        except _Missing as error:
            raise Failed(
                "NAMESPACE_MISSING",
                f"{kind.__name__} {name} cannot be made in namespace {here}",
                f"{error.details}. Create the namespace, and look at 'ramet doctor'.",
            ) from error

    def has_namespace(self, name: str) -> bool:
        """Tell whether there is a namespace; true where this client may not read namespaces."""
        try:
            with _errors(f"Namespace {name}"):
                self.client.get(Namespace, name)
        except _Missing:
            return False
        except Failed:
            return True
        return True

    def ensure_namespace(self, service_id: str, project_id: str) -> None:
        """Make the namespace of a service's project, unless it is there or is one for all."""
        name = self.namespaces.learn(service_id, project_id)
        if not self.namespaces.is_by_project or name in self._made:
            return
        if not self.has_namespace(name):
            metadata = {"name": name, "labels": {names.PROJECT_LABEL: project_id}}
            manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            with _errors(f"Namespace {name}"):
                self.client.patch(Namespace, name, manifest, patch_type=PatchType.APPLY)
        self._made.add(name)

    def patch(self, kind: type[Object], name: str, change: Mapping[str, Any]) -> None:
        """Merge a change into an object."""
        with _errors(f"{kind.__name__} {name}"):
            self.client.patch(
                kind,
                name,
                dict(change),
                namespace=self.namespaces.of_object(name),
                patch_type=PatchType.MERGE,
            )

    def patch_status(self, name: str, change: Mapping[str, Any]) -> None:
        """Merge a change into the status of a Cluster."""
        path = f"/apis/postgresql.cnpg.io/v1/namespaces/{self.namespaces.of_object(name)}/clusters/{name}/status"
        with _errors(f"the status of Cluster {name}"):
            headers = {"Content-Type": PatchType.MERGE.value}
            _checked(self._http.patch(path, json={"status": change}, headers=headers))

    def get(self, kind: type[_Kind], name: str) -> _Kind | None:
        """Return an object; None when there is none."""
        try:
            with _errors(f"{kind.__name__} {name}"):
                return self.client.get(kind, name, namespace=self.namespaces.of_object(name))
        except _Missing:
            return None

    def find(self, kind: type[_Kind], labels: Mapping[str, str]) -> list[_Kind]:
        """Return the objects that have all of these labels; no snapshots where those are not known at all."""
        return self._listed(kind, self.namespaces.of_labels(dict(labels)), labels)

    def _listed(self, kind: type[_Kind], namespace: str, labels: Mapping[str, str]) -> list[_Kind]:
        try:
            with _errors(f"the list of {kind.__name__}"):
                return list(self.client.list(kind, namespace=namespace, labels=dict(labels)))
        except _Missing:
            if kind is VolumeSnapshot:
                return []
            raise

    def find_in(self, kind: type[_Kind], namespace: str) -> list[_Kind]:
        """Return the objects of a namespace; `*` stands for all namespaces."""
        with _errors(f"the list of {kind.__name__}"):
            return list(self.client.list(kind, namespace=namespace))

    def find_global(self, kind: type[_Global]) -> list[_Global]:
        """Return all objects of a kind that is in no namespace."""
        with _errors(f"the list of {kind.__name__}"):
            return list(self.client.list(kind))

    def find_warnings(self, namespace: str) -> list[EventObject]:
        """Return what is warned of in a namespace."""
        with _errors("the list of events"):
            return list(self.client.list(EventObject, namespace=namespace, fields={"type": "Warning"}))

    def delete(self, kind: type[Object], name: str, *, grace_seconds: int | None = None) -> None:
        """Request the removal of an object, if it is there."""
        try:
            with _errors(f"{kind.__name__} {name}"):
                self.client.delete(kind, name, namespace=self.namespaces.of_object(name), grace_period=grace_seconds)
        except _Missing:
            return

    def watch(self, kind: type[_Kind], labels: Mapping[str, Any], version: str | None) -> Iterator[tuple[str, _Kind]]:
        """Yield the changes of objects after a version of their list, until the connection ends, or is silent.

        It ends, too, when the API server has forgotten that version: what has changed since is in a new list.
        """
        with _errors(f"the watch of {kind.__name__}"), _ending_when_gone():
            yield from self.client.watch(
                kind,
                namespace=self.namespaces.watched,
                labels=dict(labels),
                resource_version=version,
                server_timeout=_WATCH_SECONDS,
            )

    def find_version(self, kind: type[_Kind], labels: Mapping[str, Any]) -> tuple[list[_Kind], str]:
        """Return the objects with these labels, and the version of the list."""
        with _errors(f"the list of {kind.__name__}"):
            found = self.client.list(kind, namespace=self.namespaces.watched, labels=dict(labels))
            objects = list(found)
            return objects, found.resourceVersion

    def version(self) -> str:
        """Return the version of Kubernetes."""
        with _errors("the version"):
            return str(_checked(self._http.get("/version")).json()["gitVersion"])

    def addresses(self) -> list[ApiAddress]:
        """Return where pods reach the API server. Without the right to ask: where this client does."""
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        with suppress(Failed), _errors("the addresses of the API server"):
            labels = {"labelSelector": "kubernetes.io/service-name=kubernetes"}
            found = slices_addresses(_checked(self._http.get(path, params=labels)).json())
            if found:
                return found
        url = self._http.base_url
        return [ApiAddress(socket.gethostbyname(url.host), url.port or (443 if url.scheme == "https" else 80))]

    def may(self, verb: str, group: str, resource: str) -> bool:
        """Tell whether this client may do something with the objects of the namespace, or of all namespaces."""
        plural, _, subresource = resource.partition("/")
        namespace = "" if self.namespaces.is_by_project else self.namespaces.pattern
        attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": plural}
        if subresource:
            attributes["subresource"] = subresource
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        with _errors("the rights of this client"):
            answer = _checked(self._http.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json=body))
            return bool(answer.json().get("status", {}).get("allowed"))

    def read_log(self, pod: str, *, tail_lines: int, container: str = names.CONTAINER) -> list[str]:
        """Return the lines that a container has logged, PostgreSQL's by default, oldest first.

        There are none of a container that has not started, or that is gone.
        """
        query: dict[str, str | int] = {"container": container, "tailLines": tail_lines}
        with _errors(f"the log of pod {pod}"):
            answer = self._http.get(_ROOT.format(self.namespaces.of_object(pod), pod, "log"), params=query)
            return [] if answer.status_code in _NO_LOG else _checked(answer).text.splitlines()

    def run(
        self,
        pod: str,
        command: Sequence[str],
        stdin: str | BinaryIO | None = None,
        timeout_seconds: float = 60.0,
        container: str = names.CONTAINER,
    ) -> str:
        """Run a program in a pod to its end; return what it printed. Raises Unavailable when it fails."""
        if stdin is None:
            command, stdin = (*AFTER_INPUT, *command), ""
        with _errors(f"{command[0]} in pod {pod}"):
            answer = self.client.exec(
                pod,
                namespace=self.namespaces.of_object(pod),
                container=container,
                command=list(command),
                stdin=stdin,
                stdout=True,
                stderr=True,
                timeout=timeout_seconds,
            )
        if answer.exit_code:
            raise Unavailable(
                "PROGRAM_FAILED", f"{command[0]} in pod {pod} ended with {answer.exit_code}", str(answer.stderr).strip()
            )
        return str(answer.stdout)

    def channel(self, pod: str, command: Sequence[str]) -> AbstractContextManager[WebSocketSession]:
        """Run a program in a pod with its input and output on a WebSocket; messages begin with their stream's number.

        Raises httpx2's errors.
        """
        streams = {"container": names.CONTAINER, "stdin": "true", "stdout": "true", "stderr": "true"}
        return self._http.websocket(
            _ROOT.format(self.namespaces.of_object(pod), pod, "exec"),
            params={"command": list(command), **streams},
            subprotocols=_CHANNELS,
            max_message_size_bytes=_MESSAGE_BYTES,
        )

    def _namespace_of(self, service_id: str) -> str | None:
        """Return the namespace that has objects of a service: the Cluster, or what may be before or after it."""
        for kind in (Cluster, Volume, VolumeSnapshot, NetworkPolicy, Pod, ConfigMap):
            for found in self._listed(kind, ALL, names.labels_of(service_id)):
                return found.metadata.namespace
        return None

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        self._http.close()


class _Missing(Failed):
    """There is no such object."""


def open_api(kubeconfig: Path | None, namespace: str) -> Api:
    """Open the cluster of a kubeconfig file; None: that of $KUBECONFIG, or the one that this process runs in.

    Raises Invalid when none is found.
    """
    try:
        found = KubeConfig.from_env() if kubeconfig is None else KubeConfig.from_file(str(kubeconfig))
        config = found.get()
        if config is None:
            raise ConfigError("the file has no context")
        return Api(config, namespace)
    except (ConfigError, OSError) as error:
        raise Invalid(
            "INVALID_SETTING",
            f"No cluster of Kubernetes can be opened: {error}",
            "Set RAMET_KUBECONFIG to a kubeconfig file, or run Ramet in the cluster.",
        ) from error


def slices_addresses(listed: dict[str, Any]) -> list[ApiAddress]:
    """Return the addresses in a list of EndpointSlices, each with the ports of its slice."""
    return [
        ApiAddress(host, port["port"])
        for one in listed["items"]
        for port in one.get("ports") or ()
        for endpoint in one.get("endpoints") or ()
        for host in endpoint["addresses"]
    ]


class _Transport(httpx2.HTTPTransport):
    """Gives up watches that are silent for too long: the client by itself would wait for them for ever."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if "watch" in request.url.params:
            timeout = {**request.extensions.get("timeout", {}), "read": _SILENT_SECONDS}
            request.extensions = {**request.extensions, "timeout": timeout}
        return super().handle_request(request)


def _transport(config: SingleConfig) -> httpx2.HTTPTransport:
    user = config.user or User()
    context = client_adapter.verify_cluster(config.cluster, user, config.abs_file, trust_env=False)
    context.sslsocket_class = SharedSocket
    return _Transport(verify=context, trust_env=False)


def _checked(response: httpx2.Response) -> httpx2.Response:
    if response.is_error:
        raise ApiError(request=response.request, response=response)
    return response


@contextmanager
def _ending_when_gone() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.status.code != 410:
            raise


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        raise _refused(what, error) from error
    except (httpx2.HTTPError, HTTPXWSException, LocalProtocolError, TimeoutError, ValueError) as error:
        raise Unseen(
            "KUBERNETES_UNREACHABLE", f"The API server of Kubernetes did not answer about {what}", str(error)
        ) from error


def _refused(what: str, error: ApiError) -> Failed | Unavailable:
    code, reason = error.status.code or 500, str(error.status.message)
    if code == 404:
        return _Missing("KUBERNETES_NOT_FOUND", f"{what} is not in Kubernetes", reason)
    if code == 403:
        return Failed("KUBERNETES_FORBIDDEN", f"Kubernetes does not let Ramet change or read {what}", reason)
    if code in (400, 422):
        return Failed("KUBERNETES_REFUSED", f"Kubernetes refused {what}", reason)
    return Unseen("KUBERNETES_UNREACHABLE", f"Kubernetes cannot answer about {what} now", reason)
