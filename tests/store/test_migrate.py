"""The schema: migrations and tables agree, and processes that open a store at once do not trip over each other."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from ramet.errors import WrongState
from ramet.store.database import Store
from ramet.store.migrate import configuration, current_revision, head_revision
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


def test_a_store_of_an_earlier_release_is_migrated_only_by_a_process_that_serves_it(url: str) -> None:
    _make_revision(url, "0003")
    with pytest.raises(WrongState) as refused:
        Store.open(url, migrates=False)
    assert refused.value.code == "STORE_TOO_OLD"
    assert "revision 0003" in refused.value.message
    assert _revision(url) == "0003"
    Store.open(url).close()
    Store.open(url, migrates=False).close()
    assert _revision(url) == head_revision()


@pytest.mark.parametrize("migrates", [True, False])
def test_a_store_of_a_later_release_is_refused(url: str, migrates: bool) -> None:
    _make_revision(url, "head")
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(WrongState) as refused:
        Store.open(url, migrates=migrates)
    assert refused.value.code == "STORE_TOO_NEW"
    assert "revision 9999" in refused.value.message
    assert _revision(url) == "9999"


def _make_revision(url: str, revision: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        config = configuration()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def _revision(url: str) -> str | None:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        revision = current_revision(connection)
    engine.dispose()
    return revision
