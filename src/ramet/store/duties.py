"""When each periodic duty is next to be done: the row is what keeps two processes from doing it at once.

The clock may step back: a duty that is due later than its period allows was noted before the step, and is due now.
"""

import sqlalchemy as sa

from ramet.store.database import Store, epoch_seconds
from ramet.store.tables import duty


def seconds_until_due(tx: sa.Connection, name: str, seconds: float) -> float:
    """Return how long it is until a duty of that period is due; 0 or less when it is, or was never done."""
    next_at = tx.scalar(sa.select(duty.c.next_at).where(duty.c.name == name))
    if next_at is None:
        return 0.0
    left = next_at - epoch_seconds(tx)
    return left if left <= seconds else 0.0


def take(store: Store, name: str, seconds: float) -> bool:
    """Claim a duty that is due and set its next time; False when it is not due, or another process was first."""
    with store.read() as tx:
        if seconds_until_due(tx, name, seconds) > 0:
            return False
    with store.write(durable=store.is_postgresql, patient=True) as tx:
        now = epoch_seconds(tx)
        due = (duty.c.name == name) & ((duty.c.next_at <= now) | (duty.c.next_at > now + seconds))
        if tx.execute(duty.update().where(due).values(next_at=now + seconds)).rowcount:
            return True
        return _insert(tx, name, now + seconds)


def _insert(tx: sa.Connection, name: str, next_at: float) -> bool:
    """Add a duty that was never done; False when it is known: then it is not due any more."""
    if tx.scalar(sa.select(duty.c.name).where(duty.c.name == name)) is not None:
        return False
    with tx.begin_nested() as attempt:
        try:
            tx.execute(duty.insert().values(name=name, next_at=next_at))
        except sa.exc.IntegrityError:
            attempt.rollback()
            return False
    return True
