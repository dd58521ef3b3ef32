"""Servers that the host cannot bear are refused, instead of starting them all and losing some.

What starts a server anew asks here: creating, forking, resuming, waking, replicas, copies. A server that was down by
itself is started again without asking.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.lookup import is_being_restored
from ramet.control.plane import Plane, Yielded
from ramet.errors import Exhausted
from ramet.model.capacity import Capacity, memory_needed_mbs
from ramet.model.environment import Environment
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.model.size import Size
from ramet.model.words import listed
from ramet.store import running, services
from ramet.store.database import Store

COMMIT_SETTING = "RAMET_MEMORY_COMMIT_PERCENT"
_NAMED = 3


@dataclass(frozen=True)
class Wanted:
    """Servers that are to be started beside those that run, and the memory that they may come to need in all.

    No servers: those that run may need so much more.
    """

    servers: int
    memory_mbs: int = 0


def wanted_for(new: Sequence[Service]) -> Wanted:
    """Return what the servers of these services take."""
    return Wanted(len(new), sum(memory_needed_mbs(one.size, one.environment) for one in new))


def wanted_for_nodes(nodes: int, size: Size, environment: Environment) -> Wanted:
    """Return what so many replica nodes take."""
    return Wanted(nodes, nodes * memory_needed_mbs(size, environment))


def wanted_to_start(tx: sa.Connection, service: Service) -> Wanted:
    """Return what a service that is paused takes when it is resumed, with its read replicas.

    A restore under way has been granted all of that, but for the server that runs beside the copy.
    """
    if is_being_restored(tx, service.id):
        return Wanted(1)
    sets = [one for one in service.replica_sets if one.ready_at is not None and one.failed_at is None]
    each = [wanted_for([service]), *(wanted_for_nodes(len(one.nodes), one.size, one.environment) for one in sets)]
    return Wanted(sum(one.servers for one in each), sum(one.memory_mbs for one in each))


def wanted_to_resize(tx: sa.Connection, service: Service, size: Size) -> Wanted:
    """Return what a service takes in addition when it gets another size; one that is paused is resumed with it."""
    if service.paused and not is_being_restored(tx, service.id):
        return wanted_to_start(tx, replace(service, size=size))
    return Wanted(int(service.paused), _growth(service.size, size, service.environment).memory_mbs)


def wanted_to_resize_set(replica_set: ReplicaSet, size: Size) -> Wanted:
    """Return what the nodes of a set take in addition when they get another size."""
    return _growth(replica_set.size, size, replica_set.environment, len(replica_set.nodes))


def capacity_of(plane: Plane) -> Capacity:
    """Return what bounds the servers of the host now. Not in a transaction."""
    return plane.backend.admission.capacity()


def check_admission(plane: Plane, tx: sa.Connection, capacity: Capacity, project_id: str, wanted: Wanted) -> None:
    """Raise Exhausted, naming the bound, when the host cannot bear these servers beside those that are being started.

    Servers that are nobody's yet give way before, if that is enough.
    `capacity` is what `capacity_of` has found. No other transaction that asks runs before this one ends.
    """
    services.take_turn(tx)
    given = Yielded(0, 0)
    bound = capacity.tightest
    if bound is not None and wanted.servers:
        starting = running.count_starting(tx)
        missing = starting + wanted.servers - bound.room
        if missing > 0 and (given := plane.give_way(tx, missing, 0)).servers < missing:
            raise Exhausted(
                "HOST_FULL",
                f"The host has room for {max(0, bound.room - starting)} more servers now, and this needs"
                f" {wanted.servers} ({bound.name}): {bound.used} of {bound.most} {bound.unit} are in use, each server"
                f" takes about {bound.each}, and {starting} are being started{_users(plane, tx, project_id)}",
                f"Pause or delete services, wait until those are started, or get more room. {bound.remedy}",
            )
    if capacity.committed_mbs is None or not wanted.memory_mbs:
        return
    committed = running.committed_mbs(tx)
    missing = committed - given.memory_mbs + wanted.memory_mbs - capacity.committed_mbs
    if missing > 0 and plane.give_way(tx, 0, missing).memory_mbs < missing:
        raise Exhausted(
            "HOST_FULL",
            f"The servers that run on the host may need {committed} of {capacity.committed_mbs} MB of memory (committed"
            f" memory), and this needs {wanted.memory_mbs} more{_users(plane, tx, project_id)}",
            f"Pause, delete or resize services, ask for a smaller size, or raise {COMMIT_SETTING}.",
        )


def describe_use(store: Store, capacity: Capacity, ports: range) -> Sequence[tuple[str, str]]:
    """Say how much of the host its servers have reserved, as (title, sentence) rows for `ramet doctor`."""
    with store.read() as tx:
        committed, used = running.committed_mbs(tx), services.used_ports(tx)
    rows = [("ports", f"{sum(port in ports for port in used)} of {len(ports)} are in use (RAMET_PORT_RANGE).")]
    if capacity.committed_mbs is not None:
        need = f"The servers that run may need {committed} of {capacity.committed_mbs} MB ({COMMIT_SETTING})."
        rows.insert(0, ("committed memory", need))
    return rows


def _growth(before: Size, after: Size, environment: Environment, nodes: int = 1) -> Wanted:
    more = memory_needed_mbs(after, environment) - memory_needed_mbs(before, environment)
    return Wanted(0, max(0, nodes * more))


def _users(plane: Plane, tx: sa.Connection, project_id: str) -> str:
    """Name what uses the host up: of the caller's project, and of other ones only how many there are."""
    found = running.list_running(tx)
    own = [one for one in found if one.project_id == project_id and plane.only_made_by in (None, one.made_by)]
    own.sort(key=lambda one: one.memory_mbs, reverse=True)
    servers = sum(one.servers for one in found)
    if not own:
        return f"; {servers} servers run"
    named = listed([one.name for one in own], _NAMED)
    return f"; {servers} servers run, {sum(one.servers for one in own)} of them yours: {named}"
