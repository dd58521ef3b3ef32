"""Which installation uses a store on PostgreSQL: two at once would take each other's operations."""

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from ramet.errors import WrongState
from ramet.store.database import Store, peek
from ramet.store.tables import installation

_ONLY = 1
_USER = sa.select(installation.c.digest)


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
    _demand_free(_user_of(store), digest, store.engine.url)


def check_database(url: str, digest: str) -> None:
    """Raise WrongState as `check` does, before the tables of a database are migrated; an earlier one names no user."""
    with peek(url) as connection:
        is_named = sa.inspect(connection).has_table(installation.name)
        user = connection.scalar(_USER) if is_named else None
    _demand_free(user, digest, sa.make_url(url))


def _demand_free(user: str | None, digest: str, url: sa.URL) -> None:
    if user not in (None, digest):
        raise WrongState(
            "STORE_IN_USE",
            f"The store {url.render_as_string(hide_password=True)} belongs to another data directory,"
            " which has another secrets/root.key",
            "Name that directory with --data, or another database in RAMET_DATABASE_URL. If that key is lost,"
            " docs/backup.md says what to do.",
        )


def _user_of(store: Store) -> str | None:
    with store.read() as tx:
        return tx.scalar(_USER)
