"""Queries for rows that contradict each other, and for what should be on the host."""

from dataclasses import dataclass

import sqlalchemy as sa

from ramet.store.due import UNDER_WAY
from ramet.store.tables import hold, is_live, operation, replica_set, service, snapshot

_THROW_AWAY = ("drill_id", "copy_id", "previous_id")
_active = sa.select(operation.c.id).where(UNDER_WAY)


@dataclass(frozen=True)
class Owners:
    """Who may have something on a host: ids of services and of replica nodes, and of snapshots by service.

    `settled` are the services that became READY once, `paused` those whose servers must not run now, `pooled` those
    that may have a pooler, `busy` the subjects of operations under way, with the nodes of sets and the throw-away
    servers of drills and upgrades: what is left of them may still be needed.
    """

    settled: frozenset[str]
    living: frozenset[str]
    paused: frozenset[str]
    pooled: frozenset[str]
    busy: frozenset[str]
    snapshots: frozenset[tuple[str, str]]


def owners(tx: sa.Connection) -> Owners:
    """Return the owners according to the rows."""
    active = tx.execute(sa.select(operation.c.subject, operation.c.state).where(UNDER_WAY)).all()
    busy = {row.subject for row in active}
    busy |= {row.state[name] for row in active for name in _THROW_AWAY if row.state.get(name) is not None}
    rows = tx.execute(service.select().where(is_live(service))).all()
    sets = tx.execute(replica_set.select().where(is_live(replica_set))).all()
    paused = {row.id for row in rows if row.paused}
    nodes = {node_id: row for row in sets for node_id, _port in row.nodes}
    busy |= {node_id for node_id, row in nodes.items() if row.id in busy or row.service_id in busy}
    return Owners(
        settled=frozenset(row.id for row in rows if row.ready_at is not None),
        living=frozenset([*(row.id for row in rows), *nodes]),
        paused=frozenset(paused | {node_id for node_id, row in nodes.items() if row.service_id in paused}),
        pooled=frozenset(row.id for row in (*rows, *sets) if row.pooler_port is not None),
        busy=frozenset(busy),
        snapshots=frozenset((row.service_id, row.id) for row in tx.execute(snapshot.select())),
    )


def contradictions(tx: sa.Connection) -> list[str]:
    """Return a sentence for each row that no operation will repair."""
    living = sa.select(service.c.id).where(is_live(service))
    found = [
        f"Operation {row.operation_id} is over and still holds service {row.service_id}."
        for row in tx.execute(hold.select().where(hold.c.operation_id.not_in(_active)))
    ]
    for table, title in ((service, "Service"), (replica_set, "Replica set")):
        claimed = table.c.operation_id.is_not(None) & table.c.operation_id.not_in(_active)
        found += [
            f"{title} {row.id} waits for operation {row.operation_id}, which is over."
            for row in tx.execute(table.select().where(claimed))
        ]
    orphans = snapshot.select().where(snapshot.c.service_id.not_in(living))
    found += [f"Snapshot {row.id} belongs to service {row.service_id}, which is gone." for row in tx.execute(orphans)]
    return found
