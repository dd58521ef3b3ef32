"""What an archive holds: services of all installations that wrote to it, and the times they can be restored to."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from ramet.archive import owner
from ramet.archive.object_store import Bucket
from ramet.cli.commands import cli
from ramet.errors import Invalid, NotFound, Unavailable
from ramet.model.passwords import Secret
from ramet.recovery.contents import Contents, read_contents
from ramet.recovery.sealed import RecoveryKey, ensure_key
from ramet.recovery.versions import write_catalogue
from tests.recovery.archives import TAKEN_AT, archive_base, created, publish
from tests.worlds import World, make_world


def services_in(contents: Contents) -> list[str]:
    return [each.entry.name for each in contents.holdings]


def test_a_service_can_be_restored_from_its_first_base_backup_until_its_last_wal_arrived(
    world: World, bucket: Bucket, tmp_path: Path
) -> None:
    ids = created(world, ["archived", "other"])
    archive_base(bucket, ids["archived"], tmp_path)
    publish(world, bucket, tmp_path)
    archived, other = read_contents(bucket).holdings
    assert (archived.project, archived.base_backups, archived.size_bytes) == ("demo", 1, 12_345)
    assert archived.oldest == TAKEN_AT
    assert archived.newest is not None
    assert datetime.now(UTC) - archived.newest < timedelta(minutes=10)
    assert archived.archive_bytes > 100
    assert (other.oldest, other.newest, other.size_bytes) == (None, None, 0)


def test_a_service_whose_machine_was_lost_during_its_upgrade_has_the_version_of_its_base_backup(
    world: World, bucket: Bucket, tmp_path: Path
) -> None:
    ids = created(world, ["shop"])
    archive_base(bucket, ids["shop"], tmp_path)
    publish(world, bucket, tmp_path)
    (found,) = read_contents(bucket).catalogues
    (shop,) = found.services
    write_catalogue(bucket, replace(found, services=(replace(shop, pg_major=19),)))
    (holding,) = read_contents(bucket).holdings
    assert holding.entry.pg_major == 18


def test_services_that_a_new_installation_did_not_recover_stay_in_the_list(
    world: World, bucket: Bucket, tmp_path: Path
) -> None:
    created(world, ["shop", "later"])
    publish(world, bucket, tmp_path)
    owner.take_over(bucket, "2" * 32)
    assert services_in(read_contents(bucket)) == ["shop", "later"]

    (tmp_path / "new").mkdir()
    new = make_world(tmp_path / "new")
    created(new, ["new"])
    publish(new, bucket, tmp_path, "2" * 32)
    new.store.close()
    contents = read_contents(bucket)
    assert services_in(contents) == ["new", "shop", "later"]
    secrets = contents.secrets(ensure_key(tmp_path / "kept"))
    assert secrets.files["root.key"] == b"root.key of 2"
    assert set(secrets.verifiers) == {each.entry.id for each in contents.holdings}
    assert {one.id for one in contents.projects} == {world.project.id, new.project.id}
    assert {one.public_key for one in contents.keys} == {world.key.public_key, new.key.public_key}


def test_the_writer_of_the_archive_counts_before_who_wrote_last(world: World, bucket: Bucket, tmp_path: Path) -> None:
    service = world.create("first name")
    publish(world, bucket, tmp_path, "2" * 32)
    (found,) = read_contents(bucket).catalogues
    assert found.installation == "2" * 32
    # The lost installation wrote once more before it was refused.
    late = replace(found.services[0], name="late name")
    write_catalogue(bucket, replace(found, installation="1" * 32, services=(late,)))
    contents = read_contents(bucket)
    assert [(each.entry.id, each.entry.name) for each in contents.holdings] == [(service.id, "first name")]


def test_a_service_that_was_deleted_later_is_not_listed_and_said_to_be_deleted(
    world: World, bucket: Bucket, tmp_path: Path
) -> None:
    ids = created(world, ["kept", "deleted"])
    publish(world, bucket, tmp_path)
    (first,) = read_contents(bucket).catalogues
    owner.take_over(bucket, "2" * 32)
    last = replace(first, installation="2" * 32, host="db2", services=(), deleted=(ids["deleted"],))
    write_catalogue(bucket, last)
    contents = read_contents(bucket)
    assert services_in(contents) == ["kept"]
    for name in ("deleted", ids["deleted"]):
        with pytest.raises(NotFound, match=rf"Service deleted \({ids['deleted']}\) was deleted on db2") as refused:
            contents.choose([name])
        assert "--from-deleted" in refused.value.details


@pytest.mark.parametrize(("names", "said"), [({"dabcdefghi": "shop"}, r"shop \(dabcdefghi\)"), ({}, "dabcdefghi")])
def test_a_service_that_was_deleted_on_the_lost_host_is_said_to_be_deleted(
    world: World, bucket: Bucket, tmp_path: Path, names: dict[str, str], said: str
) -> None:
    world.create("kept")
    publish(world, bucket, tmp_path)
    (found,) = read_contents(bucket).catalogues
    write_catalogue(bucket, replace(found, host="db1", deleted=("dabcdefghi",), deleted_names=names))
    contents = read_contents(bucket)
    for name in ("dabcdefghi", *names.values()):
        with pytest.raises(NotFound, match=f"^Service {said} was deleted on db1, and is not recovered"):
            contents.choose([name])


def test_services_are_chosen_by_name_or_id(world: World, bucket: Bucket, tmp_path: Path) -> None:
    ids = created(world, ["shop", "reports"])
    world.create("reports")
    publish(world, bucket, tmp_path)
    contents = read_contents(bucket)
    assert [each.entry.name for each in contents.choose([ids["reports"], "shop", "shop"])] == ["shop", "reports"]
    with pytest.raises(NotFound, match="no service with the id or the name 'sho'"):
        contents.choose(["sho"])
    with pytest.raises(Invalid, match="2 services are named 'reports'"):
        contents.choose(["reports"])


def test_an_empty_archive_and_one_without_catalogue_are_distinguished(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is empty") as empty:
        read_contents(bucket)
    assert empty.value.code == "ARCHIVE_EMPTY"
    archive_base(bucket, "svc1234567", tmp_path)
    with pytest.raises(NotFound, match="base backups of 1 services and no catalogue") as earlier:
        read_contents(bucket)
    assert earlier.value.code == "NO_CATALOGUE"


def test_the_command_lists_what_is_there_without_a_key_or_a_data_directory(
    world: World, bucket: Bucket, tmp_path: Path
) -> None:
    ids = created(world, ["shop", "other"])
    archive_base(bucket, ids["shop"], tmp_path)
    duty = publish(world, bucket, tmp_path)
    answer = CliRunner().invoke(cli, ["recover", "--from", bucket.url, "-o", "json"])
    assert answer.exit_code == 0, answer.output
    data = json.loads(answer.stdout)
    assert (data["url"], data["installation"], data["recovery_key"]) == (bucket.url, "11111111", duty.key.key_id)
    assert [(one["name"], one["service_id"], one["base_backups"]) for one in data["services"]] == [
        ("shop", ids["shop"], 1),
        ("other", ids["other"], 0),
    ]
    assert data["services"][0]["oldest_time"] == "2026-01-15T09:30:00.000000Z"
    assert data["services"][1]["newest_time"] is None

    shown = CliRunner().invoke(cli, ["recover", "--from", bucket.url])
    assert "no base backup" in shown.stdout
    assert "belongs to installation 11111111 on" in shown.stderr


def test_a_wrong_address_is_named(s3_environment: None, bucket: Bucket) -> None:
    wrong = CliRunner().invoke(cli, ["recover", "--from", "s3:/bucket"])
    assert isinstance(wrong.exception, Invalid)
    assert wrong.exception.code == "INVALID_ARCHIVE_URL"
    absent = CliRunner().invoke(cli, ["recover", "--from", "s3://absent/x"])
    assert isinstance(absent.exception, Unavailable)
    assert "does not exist" in str(absent.exception)
    empty = CliRunner().invoke(cli, ["recover", "--from", f"{bucket.url}/elsewhere"])
    assert isinstance(empty.exception, NotFound)


def test_services_together_with_all_are_refused(world: World, bucket: Bucket, tmp_path: Path) -> None:
    publish(world, bucket, tmp_path)
    refused = CliRunner().invoke(cli, ["recover", "--from", bucket.url, "--all", "shop"])
    assert refused.exit_code == 2
    assert "Give services, or --all" in refused.output


def test_what_an_archive_of_this_release_says_is_read_by_later_ones(bucket: Bucket) -> None:
    """The objects in tests/recovery/stored are never changed."""
    for path in (Path(__file__).parent / "stored").iterdir():
        bucket.write(f"ramet-catalogue/{path.name}", path.read_bytes())
    contents = read_contents(bucket)
    (holding,) = contents.holdings
    assert (holding.entry.name, holding.entry.port, holding.entry.settings) == ("shop", 15432, {"archive": True})
    assert [each.name for each in holding.entry.replica_sets] == ["reports"]
    secrets = contents.secrets(RecoveryKey(Secret("A" * 43)))
    assert secrets.files == {"root.key": b"root"}
    assert [each.public_key for each in contents.keys] == ["RKPUBLIC"]
