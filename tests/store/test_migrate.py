"""The schema: migrations and tables agree, and processes that open a store at once do not trip over each other."""

from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from ramet.store.database import Store
from ramet.store.migrate import current_revision, head_revision
from ramet.store.tables import metadata


def test_the_migrations_make_exactly_the_tables(store: Store) -> None:
    with store.read() as tx:
        context = MigrationContext.configure(tx, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert current_revision(tx) == head_revision()


def test_the_migrations_make_every_index_with_its_condition(store: Store) -> None:
    with store.read() as tx:
        indexes = {i["name"]: i for table in metadata.tables for i in sa.inspect(tx).get_indexes(table)}
    for table in metadata.tables.values():
        for index in table.indexes:
            made = indexes[index.name]
            assert bool(made["unique"]) == index.unique
            dialect = store.engine.dialect.name
            wanted = index.dialect_options[dialect]["where"] is not None
            assert (f"{dialect}_where" in made.get("dialect_options", {})) == wanted, index.name


def test_an_empty_database_that_many_open_at_once_is_migrated_once(url: str) -> None:
    def open_store(_: int) -> str | None:
        store = Store.open(url)
        with store.read() as tx:
            revision = current_revision(tx)
        store.close()
        return revision

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(open_store, range(6))) == {head_revision()}
