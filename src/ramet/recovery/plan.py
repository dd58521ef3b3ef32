"""What can be recovered on this host, and as what: checked before anything is changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from ramet.control.plane import Plane
from ramet.control.ports import free_ports
from ramet.errors import Error, Exhausted, Failed, Invalid, WrongState
from ramet.model.gaps import check_gaps
from ramet.model.service import Service
from ramet.model.timestamps import rfc3339
from ramet.recovery.catalogue import ReplicaSetEntry, ServiceEntry
from ramet.recovery.contents import Holding
from ramet.recovery.session import is_tried_again, recovery_of, target_of
from ramet.store import services
from ramet.store.operations import Operation


@dataclass(frozen=True)
class Refused:
    """A service that cannot be recovered here, and why."""

    entry: ServiceEntry
    error: Error


@dataclass(frozen=True)
class Plan:
    """The services to recover, as they will be here; those that cannot; and what else will differ, in sentences."""

    entries: tuple[ServiceEntry, ...]
    refused: tuple[Refused, ...]
    differences: tuple[str, ...]


def make_plan(plane: Plane, holdings: Sequence[Holding], target: datetime | None, *, new_ports: bool) -> Plan:
    """Check services against this host. Raises Invalid when ports are taken, unless they may be replaced."""
    here = {each.entry.id: found for each in holdings if (found := _here(plane, each.entry.id)) is not None}
    entries, refused, differences = list[ServiceEntry](), list[Refused](), list[str]()
    for each in holdings:
        known = here.get(each.entry.id)
        error = _refusal(plane, each, target) if known is None else _refusal_here(*known, target)
        if error is not None:
            refused.append(Refused(each.entry, error))
            continue
        entry, differing = _adapted(plane, each.entry)
        entries.append(entry)
        differences += differing
    fresh = [entry for entry in entries if entry.id not in here]
    taken = _taken_ports(plane, fresh)
    if taken and not new_ports:
        raise _ports_taken(taken)
    if taken:
        entries = _with_new_ports(plane, entries, taken)
        differences += [f"{one.name}: port {one.port} is in use here, and another one is taken" for one in taken]
    return Plan(tuple(entries), tuple(refused), tuple(differences))


def _here(plane: Plane, service_id: str) -> tuple[Service, Operation | None] | None:
    """Return a service that is here already, with its recovery; None when that failed, as it is tried again."""
    with plane.store.read() as tx:
        found = services.get_service(tx, service_id)
        return None if found is None or is_tried_again(found) else (found, recovery_of(tx, service_id))


def _refusal_here(service: Service, recovery: Operation | None, target: datetime | None) -> Error | None:
    """Return why a service that is here already is not recovered; None when it is, or was, to that time."""
    if service.deleted_at is not None:
        return WrongState(
            "SERVICE_DELETED",
            f"Service {service.name} ({service.id}) was deleted on this host, and is not recovered any more",
            "Until its archive expires, 'ramet service fork --from-deleted' makes a fork of it if it had a base backup"
            " here, and Barman can restore it anywhere: see docs/archive.md.",
        )
    reached = None if recovery is None else target_of(recovery)
    if reached == target:
        return None
    how = "not recovered" if recovery is None else f"recovered to {_named(reached)}"
    if recovery is not None and recovery.finished_at is None:
        how = f"being {how}, which goes on when Ramet runs"
    again = "without --to" if reached is None else f"with --to {rfc3339(reached)}"
    return WrongState(
        "RECOVERED_TO_ANOTHER_TIME",
        f"Service {service.name} is on this host already, {how}; it cannot be recovered to {_named(target)}",
        f"Run the command {again} to leave the service as it is, or to go on with its recovery. To have it as of"
        " another time, stop Ramet here with 'ramet down', and name a new directory with --data. Do not delete the"
        " service here: what is deleted is not recovered any more. Keep this directory until it is in the new one.",
    )


def _named(target: datetime | None) -> str:
    return "the newest state" if target is None else rfc3339(target)


def _refusal(plane: Plane, holding: Holding, target: datetime | None) -> Error | None:
    """Return why a service cannot be recovered; None when it can."""
    entry = holding.entry
    if holding.oldest is None or holding.newest is None:
        why = "none is complete and undamaged" if entry.archived else "it was not archived off the host"
        return Failed("NO_BASE_BACKUP", f"The archive has no base backup of {entry.name}: {why}")
    if target is not None and not holding.oldest <= target <= holding.newest:
        return Invalid(
            "OUTSIDE_RESTORE_WINDOW",
            f"--to {rfc3339(target)} must be between {rfc3339(holding.oldest)} and {rfc3339(holding.newest)}",
            "Leave --to out for the newest state.",
        )
    try:
        if target is not None:
            check_gaps(entry.archive_gaps, target)
        plane.backend.host.check_service_type(entry.service_type, entry.pg_major)
        plane.placement.check_tls(entry.pg_major, has_tls=plane.backend.host.has_tls(entry.pg_major))
    except (Invalid, Failed) as error:
        return error
    return None


def _adapted(plane: Plane, entry: ServiceEntry) -> tuple[ServiceEntry, list[str]]:
    """Return a service as this host can have it, and what differs from the lost one."""
    differences = list[str]()
    largest = plane.backend.host.size()
    cpu, memory = _least(entry.cpu_millis, largest.cpu_millis), _least(entry.memory_gbs, largest.memory_gbs)
    if (cpu, memory) != (entry.cpu_millis, entry.memory_gbs):
        entry = replace(entry, cpu_millis=cpu, memory_gbs=memory)
        differences.append(f"{entry.name}: this host is smaller, so it gets {cpu} millis of CPU and {memory} GB")
    try:
        if entry.sleep_after_seconds is not None:
            plane.backend.endpoints.check()
    except (Invalid, Failed) as error:
        entry = replace(entry, sleep_after_seconds=None, server_port=None)
        differences.append(f"{entry.name}: it does not fall asleep: {error}")
    obstacles = {each.id: _obstacle(plane, entry, each) for each in entry.replica_sets}
    differences += [
        f"{entry.name}: its read replica set {each.name} is not made again: {obstacles[each.id]}"
        for each in entry.replica_sets
        if obstacles[each.id] is not None
    ]
    kept = tuple(each for each in entry.replica_sets if obstacles[each.id] is None)
    return replace(entry, replica_sets=kept), differences


def _obstacle(plane: Plane, entry: ServiceEntry, replica_set: ReplicaSetEntry) -> str | None:
    """Say why a read replica set is not made again; None when it is."""
    if entry.paused:
        return "the service is paused"
    if len(replica_set.nodes) > 1 or replica_set.pooler_port is not None:
        try:
            plane.backend.poolers.check()
        except (Invalid, Failed) as error:
            return str(error)
    return None


def _least(wanted: int | None, largest: int | None) -> int | None:
    return wanted if wanted is None or largest is None else min(wanted, largest)


def _ports(entry: ServiceEntry) -> Iterable[tuple[int, str]]:
    """Yield each port of a service, with the name of what has it."""
    yield entry.port, entry.name
    if entry.server_port is not None:
        yield entry.server_port, f"the server of {entry.name}"
    if entry.pooler_port is not None:
        yield entry.pooler_port, f"the pooler of {entry.name}"
    for each in entry.replica_sets:
        pooler = () if each.pooler_port is None else (each.pooler_port,)
        for port in dict.fromkeys((each.port, *pooler, *(port for _, port in each.nodes))):
            yield port, f"read replica set {each.name} of {entry.name}"


@dataclass(frozen=True)
class _Taken:
    """A port that a service cannot have, with the name of what would have it."""

    service_id: str
    port: int
    name: str


def _taken_ports(plane: Plane, fresh: list[ServiceEntry]) -> list[_Taken]:
    """Return the ports that these services cannot have: something listens there, or another service has them."""
    with plane.store.read() as tx:
        used = services.used_ports(tx)
    taken = list[_Taken]()
    for entry in fresh:
        own = dict(_ports(entry))
        unfit = {port for port in own if port in used or not plane.backend.host.port_is_free(port)}
        taken += [_Taken(entry.id, port, name) for port, name in own.items() if port in unfit]
        used |= own.keys()
    return taken


def _ports_taken(taken: list[_Taken]) -> Invalid:
    listed = ", ".join(f"{one.port} ({one.name})" for one in taken)
    return Invalid(
        "PORT_IN_USE",
        f"Ports of services are in use on this host: {listed}",
        "Stop what listens there, or give --new-ports to let these services have others.",
    )


def _with_new_ports(plane: Plane, entries: list[ServiceEntry], taken: list[_Taken]) -> list[ServiceEntry]:
    """Return the services with other ports in place of those that are taken."""
    wanted = {port for entry in entries for port, _ in _ports(entry)}
    chosen = [port for port in free_ports(plane, len(taken) + len(wanted)) if port not in wanted]
    if len(chosen) < len(taken):
        raise Exhausted("NO_FREE_PORT", f"{len(taken)} new ports are needed", "Widen RAMET_PORT_RANGE.")
    new = dict[str, dict[int, int]]()
    for one, port in zip(taken, chosen, strict=False):
        new.setdefault(one.service_id, {})[one.port] = port
    return [_renumbered(entry, new.get(entry.id, {})) for entry in entries]


def _renumbered(entry: ServiceEntry, new: dict[int, int]) -> ServiceEntry:
    def of(port: int) -> int:
        return new.get(port, port)

    sets = [
        replace(
            each,
            port=of(each.port),
            pooler_port=None if each.pooler_port is None else of(each.pooler_port),
            nodes=tuple((node_id, of(port)) for node_id, port in each.nodes),
        )
        for each in entry.replica_sets
    ]
    others = {"server_port": entry.server_port, "pooler_port": entry.pooler_port}
    renumbered = {name: None if port is None else of(port) for name, port in others.items()}
    return replace(entry, port=of(entry.port), replica_sets=tuple(sets), **renumbered)
