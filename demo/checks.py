"""What must hold of each fork, asked of the databases themselves. Every check returns a sentence, or raises."""

from datetime import datetime

from demo.stage import DemoFailed
from demo.workload import Address
from ramet.client import Client

_ROWS = "SELECT count(*), coalesce(min(n), 1), coalesce(max(n), 0) FROM ledger"
_SUMS = (
    "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers),"
    " (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)"
)
_COMMITTED = "SELECT count(*), coalesce(max(n), 0) FROM ledger WHERE pg_xact_commit_timestamp(xmin) <= %s"
_CONTENT = "SELECT md5(coalesce(string_agg(n || ' ' || at, ',' ORDER BY n), '')) FROM ledger WHERE n <= %s"


_STORY = ("createService", "createSnapshot", "forkService", "forkService", "forkService")


def audit_tells(client: Client) -> str:
    """The audit has all that the demo has asked for, in its order, by its key, and nothing else."""
    entries = client.list_audit(limit="500").entries[::-1]
    by_key = [entry for entry in entries if entry.actor.kind == "key"]
    if tuple(entry.verb for entry in by_key) != _STORY or {entry.outcome for entry in by_key} != {"accepted"}:
        raise DemoFailed(f"the audit tells another story: {[(one.verb, one.outcome) for one in by_key]}")
    names = ", ".join(f"{one.verb} {(one.fields or {}).get('name', '')}".strip() for one in by_key)
    return f"the audit has, by key {by_key[0].actor.name!r}: {names}"


def rows_without_hole(fork: Address) -> int:
    """Return the last number of the fork's ledger after making sure that every smaller one is there too."""
    with fork.connect() as connection:
        count, first, last = _one(connection.execute(_ROWS).fetchone())
    if (count, first) != (last, 1):
        raise DemoFailed(f"the ledger has a hole: {count} rows from {first} to {last}")
    return int(last)


def holds_all_acknowledged(fork: Address, acknowledged: int) -> str:
    """NOW: every row that was acknowledged before the request was sent is there."""
    last = rows_without_hole(fork)
    if last < acknowledged:
        raise DemoFailed(f"row {acknowledged} was acknowledged before the request, and the fork ends with {last}")
    return f"all {acknowledged:,} rows acknowledged before the request, and {last - acknowledged} later ones"


def holds_exactly_until(fork: Address, parent: Address, restore_time: datetime) -> str:
    """PITR: exactly the rows whose transactions the parent says were committed at or before that time."""
    last = rows_without_hole(fork)
    with parent.connect() as connection:
        count, wanted = _one(connection.execute(_COMMITTED, (restore_time,)).fetchone())
    if (count, last) != (wanted, wanted):
        raise DemoFailed(
            f"the parent committed {count} rows until {restore_time}, the last is {wanted}; the fork has {last}"
        )
    return f"exactly the {last:,} rows committed until then: 0 too many, 0 missing"


def holds_snapshot(fork: Address, parent: Address, taken_at: datetime, acknowledged: int) -> str:
    """LAST_SNAPSHOT: all rows acknowledged before the snapshot was asked for, and none of after it was complete."""
    last = rows_without_hole(fork)
    with parent.connect() as connection:
        _, newest = _one(connection.execute(_COMMITTED, (taken_at,)).fetchone())
    if not acknowledged <= last <= newest:
        raise DemoFailed(f"the snapshot of {taken_at} must end between rows {acknowledged} and {newest}, not at {last}")
    return f"the {last:,} rows of the snapshot, none of later"


def agrees_with_parent(fork: Address, parent: Address) -> str:
    """The rows that the fork has are those of the parent, to the letter; and pgbench's sums agree with each other."""
    last = rows_without_hole(fork)
    contents = []
    for address in (fork, parent):
        with address.connect() as connection:
            contents.append(_one(connection.execute(_CONTENT, (last,)).fetchone())[0])
    if contents[0] != contents[1]:
        raise DemoFailed("the fork's rows differ from the parent's")
    with fork.connect() as connection:
        sums = _one(connection.execute(_SUMS).fetchone())
    if len(set(sums)) != 1:
        raise DemoFailed(f"pgbench's sums differ, so that a transaction is torn: {sums}")
    return f"pgbench's four sums agree ({int(sums[0]):+,})"


def lives_on_its_own(fork: Address, parent: Address) -> str:
    """What is written to the fork stays there."""
    with fork.connect() as connection:
        connection.execute("INSERT INTO ledger (n) VALUES (-1)")
    with parent.connect() as connection:
        seen = _one(connection.execute("SELECT count(*) FROM ledger WHERE n = -1").fetchone())[0]
    if seen:
        raise DemoFailed("a row that was written to the fork appeared in the parent")
    return "what is written to a fork stays there"


def _one(row: tuple[int, ...] | None) -> tuple[int, ...]:
    if row is None:
        raise AssertionError("BUG: an aggregate returned no row")
    return row
