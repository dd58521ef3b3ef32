"""Which installation uses a store on PostgreSQL: two at once would take each other's operations."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from ramet.errors import WrongState
from ramet.store.database import Store
from ramet.store.tables import installation

_ONLY = 1


def claim(store: Store, digest: str) -> None:
    """Make an installation the one that uses a store, unless another one does. May run twice, and at once with others.

    Raises WrongState as `check` does.
    """
    if _user_of(store) is None:
        with store.write() as tx:
            tx.execute(insert(installation).values(number=_ONLY, digest=digest).on_conflict_do_nothing())
    check(store, digest)


def check(store: Store, digest: str) -> None:
    """Raise WrongState when another installation uses a store."""
    if _user_of(store) not in (None, digest):
        raise WrongState(
            "STORE_IN_USE",
            f"The store {store.engine.url.render_as_string(hide_password=True)} belongs to another data directory,"
            " which has another secrets/root.key",
            "Name that directory with --data, or another database in RAMET_DATABASE_URL. If that key is lost,"
            " docs/backup.md says what to do.",
        )


def _user_of(store: Store) -> str | None:
    with store.read() as tx:
        return tx.scalar(sa.select(installation.c.digest))
