"""A store on PostgreSQL has one installation: another data directory is refused before it does anything."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from ramet.cli.commands import cli
from ramet.configured import is_store_used, open_store
from ramet.errors import WrongState
from ramet.settings import load_settings, make_data_dir
from ramet.store.database import Store
from ramet.store.installation import check, claim
from ramet.store.migrate import current_revision

pytestmark = pytest.mark.servers


def opened(url: str, data_dir: Path, *, migrates: bool = True) -> None:
    settings = load_settings({"RAMET_DATABASE_URL": url}, data_dir=data_dir)
    make_data_dir(data_dir)
    open_store(settings, migrates=migrates).close()


def test_a_store_is_opened_again_by_its_data_directory_and_refused_to_others(
    postgresql_url: str, tmp_path: Path
) -> None:
    for _ in range(2):
        opened(postgresql_url, tmp_path / "one")
    opened(postgresql_url, tmp_path / "one", migrates=False)
    for migrates in (True, False):
        with pytest.raises(WrongState, match="belongs to another data directory") as refused:
            opened(postgresql_url, tmp_path / "two", migrates=migrates)
        assert "--data" in (refused.value.details or "")
    (tmp_path / "one").rename(tmp_path / "moved")
    opened(postgresql_url, tmp_path / "moved")


def test_a_store_of_another_data_directory_and_of_an_earlier_release_is_not_migrated(
    postgresql_url: str, tmp_path: Path
) -> None:
    opened(postgresql_url, tmp_path / "one")
    engine = sa.create_engine(postgresql_url)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0020'"))
        indexes = "ix_service_present, ix_service_parent, ix_service_in_archive, ix_operation_listing"
        connection.execute(sa.text(f"DROP INDEX {indexes}, ix_operation_by_age, ix_operation_by_status"))
        connection.execute(sa.text("DROP INDEX ix_idempotency_service_id, ix_service_child"))
        connection.execute(sa.text("CREATE INDEX ix_operation_subject ON operation (subject)"))
        connection.execute(sa.text("ALTER TABLE service DROP COLUMN recovered"))
        connection.execute(sa.text("ALTER TABLE session DROP COLUMN secret_digest"))
        connection.execute(sa.text("DROP TABLE sign_in_link, spent_form"))
    for migrates in (True, False):
        with pytest.raises(WrongState, match="belongs to another data directory"):
            opened(postgresql_url, tmp_path / "two", migrates=migrates)
    with engine.connect() as connection:
        assert current_revision(connection) == "0020"
    engine.dispose()
    opened(postgresql_url, tmp_path / "one")


def test_of_two_installations_that_claim_a_store_at_once_one_gets_it(postgresql_url: str) -> None:
    stores = [Store.open(postgresql_url) for _ in range(4)]

    def claims(number: int) -> bool:
        try:
            claim(stores[number], str(number))
        except WrongState:
            return False
        check(stores[number], str(number))
        return True

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(claims, range(4))).count(True) == 1
    for each in stores:
        each.close()


def test_a_database_is_used_once_a_store_was_opened_there(postgresql_url: str, tmp_path: Path) -> None:
    settings = load_settings({"RAMET_DATABASE_URL": postgresql_url}, data_dir=tmp_path / "new")
    assert not is_store_used(settings)
    opened(postgresql_url, tmp_path / "new")
    assert is_store_used(settings)


def test_an_earlier_file_is_not_taken_for_the_store_by_a_shell_that_does_not_name_it(
    postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = tmp_path / "data"
    sqlite = load_settings({}, data_dir=data_dir)
    make_data_dir(data_dir)
    open_store(sqlite).close()  # of an early 'ramet up'
    opened(postgresql_url, data_dir)
    (data_dir / "pool.json").write_text("{}")
    opened(postgresql_url, data_dir)

    monkeypatch.delenv("RAMET_DATABASE_URL", raising=False)
    backup = tmp_path / "backup"
    for command in (["doctor", "--leftovers", "--clean", "--yes"], ["backup", str(backup)], ["archive", "key"]):
        refused = CliRunner().invoke(cli, [*command, "--data", str(data_dir)]).exception
        assert isinstance(refused, WrongState)
        assert refused.code == "STORE_ON_POSTGRESQL"
        assert "RAMET_DATABASE_URL" in (refused.details or "")
    assert not backup.exists()
    for used in (open_store, is_store_used):
        with pytest.raises(WrongState, match="is on PostgreSQL") as caught:
            used(sqlite)
    (mark,) = data_dir.glob("store-on-*")
    assert f"remove {mark}." in (caught.value.details or "")

    mark.unlink()
    open_store(sqlite).close()


def test_a_data_directory_that_is_refused_a_store_may_have_another_one(postgresql_url: str, tmp_path: Path) -> None:
    opened(postgresql_url, tmp_path / "one")
    with pytest.raises(WrongState):
        opened(postgresql_url, tmp_path / "two")
    open_store(load_settings({}, data_dir=tmp_path / "two")).close()


def test_an_empty_database_is_not_taken_for_the_store_of_a_directory_in_use(
    postgresql_url: str, tmp_path: Path
) -> None:
    make_data_dir(tmp_path / "data")
    (tmp_path / "data" / "pool.json").write_text("{}")
    for migrates in (True, False):
        with pytest.raises(WrongState, match="is in use, and the database in RAMET_DATABASE_URL is empty") as refused:
            opened(postgresql_url, tmp_path / "data", migrates=migrates)
        assert refused.value.code == "STORE_MISSING"
    assert not is_store_used(load_settings({"RAMET_DATABASE_URL": postgresql_url}, data_dir=tmp_path / "other"))


def test_a_store_in_a_file_is_named_to_who_changes_to_an_empty_database(postgresql_url: str, tmp_path: Path) -> None:
    opened("", tmp_path / "data")
    (tmp_path / "data" / "pool.json").write_text("{}")
    with pytest.raises(WrongState, match="RAMET_DATABASE_URL is empty") as refused:
        opened(postgresql_url, tmp_path / "data")
    assert f"Its store is {tmp_path / 'data' / 'ramet.db'}: leave RAMET_DATABASE_URL out." in refused.value.details
    opened("", tmp_path / "data")
