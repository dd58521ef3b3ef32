"""Changes to a service that need no operation, and those that this host has to refuse."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ramet.backends.base import ExtensionUpdate
from ramet.control.control import Control, wrong_state
from ramet.control.requests import Amount
from ramet.errors import Invalid
from ramet.model.credentials import Secret, scram_verifier
from ramet.model.resources import Size, parse_size
from ramet.model.service import Environment, Service, Status, check_name, status_of
from ramet.procedures.servers import server_of
from ramet.store import services

PASSWORD_LIMIT = 1000
_CHANGEABLE = (Status.READY, Status.PAUSED, Status.UNSTABLE)


def rename_service(control: Control, project_id: str, service_id: str, name: str) -> Service:
    """Give a service another name. Names need not be unique."""
    return _set(control, project_id, service_id, "rename", name=check_name(name))


def set_environment(control: Control, project_id: str, service_id: str, environment: Environment) -> Service:
    """Declare how much is at stake; memory settings that depend on it follow at the next start."""
    return _set(control, project_id, service_id, "setEnvironment", environment=environment.value)


def update_password(control: Control, project_id: str, service_id: str, password: Secret) -> None:
    """Change the admin's password; from the return on only the new one opens the service.

    Only PostgreSQL keeps it: two records could differ. No transaction of the store is open meanwhile: a tenant that
    locks the role delays nobody else.
    """
    verifier = scram_verifier(_check_password(password))
    with control.store.read() as tx:
        service = control.find(tx, project_id, service_id)
    if status_of(service) is not Status.READY:
        raise wrong_state(service, "updatePassword", (Status.READY,))
    control.backend.set_password(server_of(service), verifier)


def update_extensions(
    control: Control, project_id: str, service_id: str, name: str | None
) -> Sequence[ExtensionUpdate]:
    """Update one extension, or all, in the databases of a service to the versions that are installed on the host."""
    with control.store.read() as tx:
        service = control.find(tx, project_id, service_id)
    if status_of(service) is not Status.READY:
        raise wrong_state(service, "updateExtensions", (Status.READY,))
    return control.backend.update_extensions(server_of(service), name)


def set_ha(control: Control, project_id: str, service_id: str, counts: Mapping[str, int]) -> Service:
    """Accept zero high-availability replicas of each kind, which is what a service has. Raises Invalid for more."""
    with control.store.read() as tx:
        service = control.find(tx, project_id, service_id)
    for name, count in counts.items():
        if count < 0:
            raise Invalid("INVALID_FIELD", f"{name} must be 0, not {count}")
    if any(counts.values()):
        raise Invalid(
            "HA_NOT_AVAILABLE",
            f"{sum(counts.values())} high-availability replicas need more than one host, and this backend has one",
            "Send 0; the Kubernetes backend has high availability.",
        )
    return service


def resize_service(
    control: Control, project_id: str, service_id: str, cpu_millis: Amount, memory_gbs: Amount
) -> Service:
    """Accept another size for a service that serves, is paused, or is down and may need more to come up."""
    size = parse_size(cpu_millis, memory_gbs, Size(), control.backend.host_size())
    with control.store.write() as tx:
        service = control.find(tx, project_id, service_id, lock=True)
        if status_of(service) not in _CHANGEABLE or service.activity is not None or service.failed_at is not None:
            raise wrong_state(service, "resize", _CHANGEABLE)
        changed = control.submit(tx, service, "resize", {"before": _stored(service.size), "after": _stored(size)})
    control.wake()
    return replace(changed, size=size)  # what was asked for, though it holds once the service is settled


def optimize_service(control: Control, project_id: str, service_id: str) -> Service:
    """Accept the collection of fresh statistics; the service serves meanwhile."""
    with control.store.write() as tx:
        service = control.find(tx, project_id, service_id, lock=True)
        if status_of(service) is not Status.READY:
            raise wrong_state(service, "optimize", (Status.READY,))
        changed = control.submit(tx, service, "optimize", {})
    control.wake()
    return changed


def no_vpc(what: str) -> Invalid:
    """Return the refusal of whatever needs a private network."""
    return Invalid(
        "VPC_NOT_AVAILABLE",
        f"{what} needs private networks, and the backend of this host has none",
        "Connect to the endpoint of the service; VPCs are a matter of the Kubernetes backend.",
    )


def _set(control: Control, project_id: str, service_id: str, verb: str, **columns: Any) -> Service:
    with control.store.write() as tx:
        service = control.find(tx, project_id, service_id, lock=True)
        if service.failed_at is not None or status_of(service) is Status.DELETING:
            raise wrong_state(service, verb, _CHANGEABLE)
        services.update_service(tx, service.id, **columns)
        return control.find(tx, project_id, service_id)


def _stored(size: Size) -> list[int | None]:
    return [size.cpu_millis, size.memory_gbs]


def _check_password(password: Secret) -> Secret:
    text = password.reveal()
    if not text.isprintable():
        wrong = "it holds one of another kind"
    elif not 1 <= len(text) <= PASSWORD_LIMIT:
        wrong = f"it has {len(text)}"
    else:
        return password
    raise Invalid(
        "INVALID_PASSWORD",
        f"password must have 1 to {PASSWORD_LIMIT} printable characters, but {wrong}",
        "Send another one; all letters, digits, signs and spaces are allowed.",
    )
