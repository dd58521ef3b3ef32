"""When each periodic duty is next to be done: the row is what keeps two processes from doing it at once.

The clock may step back: a duty that is due later than its period allows was noted before the step, and is due now.
"""

from collections.abc import Collection

import sqlalchemy as sa

from ramet.store.database import Store, epoch_seconds
from ramet.store.tables import duty

# Built once: a duty is looked up every second.
_own = duty.c.name == sa.bindparam("own")
_next_at = sa.select(duty.c.next_at).where(_own)
_next_at_locked = _next_at.with_for_update()
_set_next_at = duty.update().where(_own).values(next_at=sa.bindparam("at"))


def seconds_until_due(tx: sa.Connection, name: str, seconds: float) -> float:
    """Return how long it is until a duty of that period is due; 0 or less when it is, or was never done."""
    next_at = tx.scalar(_next_at, {"own": name})
    return 0.0 if next_at is None else _left(next_at, seconds, epoch_seconds(tx))


def take(store: Store, name: str, seconds: float, *, is_expected: bool = False) -> bool:
    """Claim a duty that is due and set its next time; False when it is not due, or another process was first.

    One that is not expected to be due is looked up before, so that it takes no turn of a writer for nothing.
    """
    if not is_expected:
        with store.read() as tx:
            if seconds_until_due(tx, name, seconds) > 0:
                return False
    with store.write(durable=store.is_postgresql, patient=True) as tx:
        next_at = tx.scalar(_next_at_locked, {"own": name})
        now = epoch_seconds(tx)  # after the lock: another process's later time is no step of the clock
        if next_at is None:
            return _insert(tx, name, now + seconds)
        is_due = _left(next_at, seconds, now) <= 0
        if is_due:
            tx.execute(_set_next_at, {"own": name, "at": now + seconds})
        return is_due


def forget(tx: sa.Connection, names: Collection[str]) -> None:
    """Make duties due, as if they had never been done."""
    tx.execute(duty.delete().where(duty.c.name.in_(names)))


def _left(next_at: float, seconds: float, now: float) -> float:
    left = next_at - now
    return left if left <= seconds else 0.0


def _insert(tx: sa.Connection, name: str, next_at: float) -> bool:
    """Add a duty that was never done; False when another process has added it."""
    with tx.begin_nested() as attempt:
        try:
            tx.execute(duty.insert().values(name=name, next_at=next_at))
        except sa.exc.IntegrityError:
            attempt.rollback()
            return False
    return True
