"""A store keeps its rows over migrations: dumps of each released schema, frozen, are opened by the code of today.

RAMET_UPDATE_SCHEMAS=1 rewrites the dumps of the newest revision, as long as it is not released.
"""

import os
import shutil
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from ramet.store import migrate, services
from ramet.store.columns import UtcTime
from ramet.store.database import Store
from ramet.store.migrate import current_revision, head_revision
from ramet.store.tables import metadata, operation, service
from tests import stores
from tests.stores import libpq

SCHEMAS = Path(__file__).parent / "schemas"
RELEASED = sorted({path.name.split(".")[0] for path in SCHEMAS.iterdir()} | {str(head_revision())})
TIME = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
SPECIAL = {
    "service_type": "VECTOR",
    "environment": "PROD",
    "kind": "MANUAL",
    "status": "RUNNING",
    "nodes": [["node123456", 5433]],
    "fork_strategy": "PITR",
    "archive_gaps": [{"begins_at": TIME.isoformat(), "ends_at": None, "reason": "WAL was lost"}],
    "upstream": {
        "method": "PHYSICAL",
        "host": "db.example",
        "port": 5432,
        "database": "shop",
        "user": "app",
        "sslmode": "require",
        "system_identifier": "7",
        "bootstrap_role": "postgres",
    },
    "following": {"observed_at": "2026-03-29T01:59:59Z"},
}
Rows = dict[str, list[dict[str, Any]]]


def sample(table: sa.Table, *, with_nulls: bool) -> dict[str, Any]:
    """Return a row with a value, or a null where one may be, in each column."""
    return {
        column.name: _value(column, "sparse" if with_nulls else "full")
        for column in table.columns
        if not (with_nulls and column.nullable)
    }


def _is_number(column: "sa.Column[Any]") -> bool:
    return isinstance(column.type, sa.Integer) and not column.foreign_keys


def _value(column: "sa.Column[Any]", which: str) -> Any:
    if column.foreign_keys:
        return _value(next(iter(column.foreign_keys)).column, which)
    if column.name in SPECIAL:
        return SPECIAL[column.name]
    values: Mapping[type, Any] = {
        sa.Integer: 7 if which == "full" else 8,
        sa.BigInteger: 2**40,
        UtcTime: TIME,
        sa.Float: 1.5,
        sa.Boolean: False,
        sa.JSON: {"a": [1, None, "ü"]},
    }
    return values.get(type(column.type), f"{column.table.name} {column.name} {which} é ' \" \\")


def rows_of(url: str) -> Rows:
    """Return what all tables hold, whatever their columns are now."""
    engine = sa.create_engine(url)
    found = sa.MetaData()
    found.reflect(engine)
    with engine.connect() as connection:
        rows = {
            name: [dict(row) for row in connection.execute(table.select()).mappings()]
            for name, table in found.tables.items()
            if name != "alembic_version"
        }
    engine.dispose()
    return rows


def fill(url: str) -> None:
    """Put two rows into each table: one has a value everywhere, one as many nulls as may be."""
    store = Store.open(url)
    with store.write() as tx:
        for table in metadata.sorted_tables:
            for with_nulls in (False, True):
                row = sample(table, with_nulls=with_nulls)
                if table.name == "service" and not with_nulls:
                    row |= {"deleted_at": None, "failed_at": None, "operation_id": None}
                if table.name == "service" and with_nulls:
                    row |= {"port": 9, "deleted_at": TIME}
                row |= {column.name: 1 + with_nulls for column in table.primary_key if _is_number(column)}
                tx.execute(table.insert(), row)
    store.close()


def dumped(url: str) -> str:
    """Return a database as SQL."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        statements = list(connection.iterdump())
        connection.close()
        # SQLAlchemy makes the indexes of a table in no certain order.
        indexes = sorted(one for one in statements if one.startswith("CREATE INDEX"))
        return "\n".join(indexes.pop(0) if one.startswith("CREATE INDEX") else one for one in statements) + "\n"
    return stores.dumped(url)


def load(url: str, dump: Path) -> None:
    """Make a database from SQL."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.executescript(dump.read_text())
        connection.close()
        return
    with psycopg.connect(libpq(url), autocommit=True) as server:
        server.execute(dump.read_text().encode())


def _dump(url: str, revision: str) -> Path:
    return SCHEMAS / f"{revision}.{url.split(':')[0].split('+')[0]}.sql"


def test_the_dump_of_the_newest_revision_is_what_the_migrations_make(url: str) -> None:
    fill(url)
    dump = _dump(url, str(head_revision()))
    if os.environ.get("RAMET_UPDATE_SCHEMAS"):
        dump.write_text(dumped(url))
    assert dumped(url) == dump.read_text()


@pytest.mark.parametrize("revision", RELEASED)
def test_a_store_of_a_released_schema_is_brought_up_to_date_with_its_rows(url: str, revision: str) -> None:
    load(url, _dump(url, revision))
    before = rows_of(url)
    assert all(len(rows) == 2 for rows in before.values()), before
    store = Store.open(url)
    with store.read() as tx:
        assert current_revision(tx) == head_revision()
        assert compare_metadata(MigrationContext.configure(tx, opts={"compare_type": True}), metadata) == []
        (living,) = services.live_services(tx)
    store.close()
    assert (living.port, living.created_at, living.settings) == (7, TIME, {"a": [1, None, "ü"]})
    assert (living.ready_at, living.last_verified_at) == (TIME, TIME)
    assert_kept(before, rows_of(url))


def assert_kept(before: Rows, after: Rows) -> None:
    """Every row is there, with its values in all columns that there still are."""
    for name in before.keys() & after.keys():
        columns = before[name][0].keys() & after[name][0].keys()
        cut = [[{column: row[column] for column in columns} for row in rows[name]] for rows in (before, after)]
        assert sorted(map(repr, cut[0])) == sorted(map(repr, cut[1]))


CHANGE = """
revision = "next"
down_revision = "{head}"
branch_labels = depends_on = None

import sqlalchemy as sa
from alembic import op

def upgrade():
    with op.batch_alter_table("service") as batch:
        batch.add_column(sa.Column("colour", sa.Text(), server_default="green", nullable=False))
        batch.alter_column("name", new_column_name="title")
    {last}
"""


@pytest.fixture
def migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the migrations that is in force, read each time."""
    copy = tmp_path / "migrations"
    shutil.copytree(migrate._MIGRATIONS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(migrate, "_MIGRATIONS", copy)
    monkeypatch.setattr(migrate, "_scripts", migrate._scripts.__wrapped__)
    return copy


def test_a_revision_changes_a_table_that_others_refer_to_or_nothing_at_all(url: str, migrations: Path) -> None:
    fill(url)
    before, head = rows_of(url), head_revision()
    change = migrations / "versions" / "next.py"
    change.write_text(CHANGE.format(head=head, last='raise RuntimeError("the power fails")'))
    with pytest.raises(RuntimeError, match="the power fails"):
        Store.open(url)
    assert rows_of(url) == before
    change.write_text(CHANGE.format(head=head, last=""))
    store = Store.open(url)
    with store.read() as tx:
        assert current_revision(tx) == "next"
    store.close()
    after = rows_of(url)
    assert_kept(before, after)
    assert [row["colour"] for row in after["service"]] == ["green", "green"]
    assert {row["title"] for row in after["service"]} == {row["name"] for row in before["service"]}


def test_a_revision_that_leaves_references_to_nothing_changes_nothing(url: str, migrations: Path) -> None:
    fill(url)
    before = rows_of(url)
    change = CHANGE.format(head=head_revision(), last='op.execute("DELETE FROM project")')
    (migrations / "versions" / "next.py").write_text(change)
    with pytest.raises((AssertionError, sa.exc.IntegrityError), match=r"refer|foreign key"):
        Store.open(url)
    assert rows_of(url) == before


def test_a_service_that_was_half_promoted_is_marked_and_secrets_of_ended_operations_are_forgotten(url: str) -> None:
    load(url, _dump(url, "0019"))
    engine = sa.create_engine(url)
    with engine.begin() as tx:
        tx.execute(sa.text("UPDATE service SET down_reason = 'Its promotion is not complete: why.' WHERE port = 7"))
        tx.execute(sa.text("UPDATE operation SET procedure = 'move', status = 'FAILED'"))
        tx.execute(operation.update().values(state={"password": "sealed", "name": "shop"}))
    engine.dispose()
    store = Store.open(url)
    with store.read() as tx:
        (living,) = services.live_services(tx)
        states = list(tx.scalars(sa.select(operation.c.state)))
    store.close()
    assert living.half_promoted
    assert states == [{"password": None, "name": "shop"}] * 2


@pytest.mark.parametrize(("port", "status"), [(7, "SUCCEEDED"), (7, "RUNNING"), (9, "FAILED")])
def test_a_service_that_was_recovered_is_marked_and_what_the_archive_has_of_a_deleted_one_is_removed_later(
    url: str, port: int, status: str
) -> None:
    load(url, _dump(url, "0020"))
    engine = sa.create_engine(url)
    with engine.begin() as tx:
        tx.execute(sa.text("UPDATE service SET archive_from = NULL"))
        subject = tx.scalar(sa.select(service.c.id).where(service.c.port == port))
        tx.execute(operation.update().values({"procedure": "recover", "status": status, "subject": subject}))
    engine.dispose()
    store = Store.open(url)
    with store.read() as tx:
        marks = {row.port: row.recovered for row in tx.execute(sa.select(service.c.port, service.c.recovered))}
        deleted = [one.port for one in services.deleted_in_archive(tx)]
    store.close()
    assert marks == {7: port == 7, 9: port == 9}  # the recovery of 9 has failed because it was deleted
    assert deleted == ([9] if port == 9 else [])


def test_a_character_that_postgresql_has_not_is_replaced_where_fields_are_queried(url: str) -> None:
    load(url, _dump(url, "0021"))
    stored = r'{"said": "a\u0000\u0000b\\u0000\\\u0000", "kind": "plain"}'
    engine = sa.create_engine(url)
    with engine.begin() as tx:
        for name in ("operation SET state", "service SET report", "service SET settings"):
            tx.exec_driver_sql(f"UPDATE {name} = '{stored}'")
    engine.dispose()
    store = Store.open(url)
    zero = "\ufffd" if store.is_postgresql else "\0"
    kept = {"said": f"a{zero}{zero}b\\u0000\\{zero}", "kind": "plain"}
    with store.read() as tx:
        for column in (operation.c.state, service.c.report, service.c.settings):
            assert list(tx.scalars(sa.select(column))) == [kept] * 2
            assert list(tx.scalars(sa.select(column["kind"].as_string()))) == ["plain"] * 2
    store.close()
