"""Resources on the host that no row owns, resources of rows that are missing, and rows that contradict each other.

Safe while operations run: the host is listed before the rows are read and again after that. A row is
written before what it owns and ended after it, so what is listed both times and has no row is left over.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ramet.backends.interface.inventory import HostResource, Inventory, Kind
from ramet.store import consistency
from ramet.store.consistency import Owners
from ramet.store.database import Store

_SERVICE_WIDE = (Kind.DIRECTORY, Kind.SOCKETS, Kind.CGROUP, Kind.PROCESS, Kind.DOWNLOAD)
_OF_OPERATIONS = (Kind.UNFINISHED, Kind.DOWNLOAD)


@dataclass(frozen=True)
class Finding:
    """A sentence, and the resource to discard as the repair, if any."""

    sentence: str
    resource: HostResource | None = None


def find_leftovers(store: Store, inventory: Inventory) -> list[Finding]:
    """Compare host and store; nothing is changed."""
    before = inventory.resources()
    with store.read() as tx:
        owners = consistency.owners(tx)
        contradictions = consistency.contradictions(tx)
    after = inventory.resources()
    there = set(after)
    left = [_judged(one, owners) for one in before if one in there]
    return [*(one for one in left if one is not None), *_lost({*before, *after}, owners), *map(Finding, contradictions)]


def discard(store: Store, inventory: Inventory, findings: Sequence[Finding]) -> list[Finding]:
    """Remove what the findings name, unless a row owns it by now; return what was removed."""
    removed = []
    for finding in findings:
        with store.read() as tx:
            owners = consistency.owners(tx)
        if finding.resource is not None and _judged(finding.resource, owners) is not None:
            inventory.discard(finding.resource)
            removed.append(finding)
    return removed


def _judged(resource: HostResource, owners: Owners) -> Finding | None:
    reason = _reason(resource, owners)
    return None if reason is None else Finding(f"The {resource} is left over: {reason}.", resource)


def _reason(resource: HostResource, owners: Owners) -> str | None:
    """Say why no row owns a resource, or return None when one does."""
    service_id, kind = resource.service_id, resource.kind
    if kind is Kind.MOUNT:
        return "nothing of Ramet is mounted there"
    if service_id in owners.busy:
        return None
    if service_id not in owners.living:
        return "no row owns it" if kind in _SERVICE_WIDE else None  # it goes with its directory
    if kind is Kind.PROCESS and service_id in owners.paused:
        return "its service is paused"
    if kind is Kind.POOLER and service_id not in owners.pooled:
        return "its service has no pooler"
    if kind is Kind.SNAPSHOT and (service_id, resource.name) not in owners.snapshots:
        return "no row owns it"
    return "no operation is under way that could need it" if kind in _OF_OPERATIONS else None


def _lost(resources: Collection[HostResource], owners: Owners) -> list[Finding]:
    settled = owners.settled - owners.busy
    directories = {one.service_id for one in resources if one.kind is Kind.DIRECTORY}
    kept = {(one.service_id, one.name) for one in resources if one.kind is Kind.SNAPSHOT}
    lost = [f"The volume of service {service_id} is lost." for service_id in sorted(settled - directories)]
    lost += [
        f"Snapshot {snapshot_id} of service {service_id} is lost."
        for service_id, snapshot_id in sorted(owners.snapshots - kept)
        if service_id in settled & directories
    ]
    return [Finding(sentence) for sentence in lost]
