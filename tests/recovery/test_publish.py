"""The catalogue is written when it has changed, by its owner only, and the last whole version counts."""

import hashlib
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from ramet.archive import owner
from ramet.archive.object_store import Bucket, open_bucket
from ramet.control import replica_sets, services
from ramet.control.replica_sets import ReplicaSetRequest
from ramet.control.requests import CreateRequest
from ramet.errors import Invalid
from ramet.recovery.catalogue import Secrets
from ramet.recovery.publish import PublishCatalogue
from ramet.recovery.sealed import RecoveryKey, demand_used, ensure_key, read_key
from ramet.recovery.versions import read_catalogues, write_catalogue
from ramet.store import services as rows
from tests.worlds import World


@pytest.fixture
def key(tmp_path: Path) -> RecoveryKey:
    return ensure_key(tmp_path / "kept")


@pytest.fixture
def duty(world: World, bucket: Bucket, secrets: Path, key: RecoveryKey) -> PublishCatalogue:
    return PublishCatalogue(world.store, bucket, "1" * 32, secrets, key)


def keys_in(bucket: Bucket) -> list[str]:
    return sorted(found.key for found in bucket.objects("ramet-catalogue/"))


def test_what_a_new_machine_needs_is_in_the_catalogue(world: World, duty: PublishCatalogue, bucket: Bucket) -> None:
    service = world.create()
    request = ReplicaSetRequest("reports", 2, 500, 2)
    made = replica_sets.create_set(world.plane, world.project.id, service.id, request)
    services.create_service(world.plane, world.project.id, CreateRequest("second"), "an idempotency key")
    world.worker.run_until_idle()
    duty.publish()

    (catalogue,) = read_catalogues(bucket)
    assert catalogue.projects == (world.project,)
    assert catalogue.keys == (world.key,)
    first, second = catalogue.services
    assert (first.id, first.name, first.port, first.pg_major) == (service.id, "shop", service.port, service.pg_major)
    assert [(each.id, each.port, len(each.nodes)) for each in first.replica_sets] == [(made.id, made.port, 2)]
    opened = duty.key.unseal(catalogue.sealed, catalogue.installation)
    assert opened.files == {name: f"the {name}".encode() for name in ("ca.crt", "ca.key", "root.key")}
    assert opened.verifiers[first.id] == service.verifier.reveal()
    assert [request.service_id for request in opened.requests] == [second.id]
    replace(duty, _written=None).publish()
    assert len(keys_in(bucket)) == 1  # what is read is what was written


def test_no_secret_is_readable_in_the_object_store(world: World, duty: PublishCatalogue, bucket: Bucket) -> None:
    service = world.create()
    duty.publish()
    (stored,) = (bucket.read(key) or b"" for key in keys_in(bucket))
    for secret in (b"the ca.key", b"the root.key", service.verifier.reveal().encode(), world.secret.reveal().encode()):
        assert secret not in stored
    assert duty.key.secret.reveal().encode() not in stored
    assert duty.key.secret.reveal() not in repr(duty)


def test_the_key_that_a_catalogue_was_written_with_is_known_on_the_host(
    world: World, duty: PublishCatalogue, secrets: Path, tmp_path: Path
) -> None:
    kept, other = tmp_path / "kept" / "archive.key", tmp_path / "other" / "archive.key"
    changed = replace(duty, key=ensure_key(other.parent))
    demand_used(secrets, other)  # nothing was written yet
    for written, used, unused in ((duty, kept, other), (changed, other, kept), (duty, kept, other)):
        replace(written, _written=None).publish()
        demand_used(secrets, used)
        with pytest.raises(Invalid, match="is encrypted with"):
            demand_used(secrets, unused)


def test_a_catalogue_is_written_once_also_where_the_key_cannot_be_recorded(
    world: World, duty: PublishCatalogue, bucket: Bucket, secrets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (secrets / "archive.key-id").mkdir()  # no file can take its place, as where the secrets are mounted read-only
    caplog.set_level(logging.INFO, "ramet.recovery.publish")
    service = world.create()
    duty.publish()
    duty.bucket = open_bucket(bucket.url.replace("bucket-", "absent-"))
    duty.publish()
    assert duty._problem == ""  # the object store was not asked
    duty.bucket = bucket
    services.rename_service(world.plane, world.project.id, service.id, "shop two")
    duty.publish()
    assert len(keys_in(bucket)) == 2
    logged = [record.getMessage() for record in caplog.records if record.name == "ramet.recovery.publish"]
    assert [message.partition(":")[0] for message in logged] == [
        "it is not recorded which key the catalogue of the archive is encrypted with"
    ]


def test_a_version_is_written_only_when_something_changed(world: World, duty: PublishCatalogue, bucket: Bucket) -> None:
    service = world.create()
    duty.publish()
    duty.publish()
    replace(duty, _written=None).publish()  # as another process does
    assert len(keys_in(bucket)) == 1
    services.rename_service(world.plane, world.project.id, service.id, "shop two")
    duty.publish()
    assert len(keys_in(bucket)) == 2
    assert [one.name for one in read_catalogues(bucket)[0].services] == ["shop two"]


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "altered"])
def test_a_catalogue_that_is_lost_or_altered_is_written_again_within_an_hour(
    world: World, duty: PublishCatalogue, bucket: Bucket, is_lost: bool
) -> None:
    duty.clock = lambda: 36_000.0
    service = world.create()
    duty.publish()
    (key,) = keys_in(bucket)
    if is_lost:
        bucket.delete([found.key for found in bucket.objects("")])
    else:
        bucket.write(key, b"altered")
    duty.publish()
    assert read_catalogues(bucket) == []  # it is not read each time
    for seconds in (39_600.0, 43_200.0):
        duty.clock = partial(float, seconds)
        duty.publish()
    (catalogue,) = read_catalogues(bucket)
    assert [one.id for one in catalogue.services] == [service.id]
    assert len(keys_in(bucket)) == (1 if is_lost else 2)


def test_a_version_that_was_cut_short_or_altered_does_not_count(
    world: World, duty: PublishCatalogue, bucket: Bucket
) -> None:
    for name in ("one", "two", "three"):
        world.create(name)
        duty.publish()
    _first, second, third = keys_in(bucket)
    bucket.write(third, (bucket.read(third) or b"")[:-100])
    assert [one.name for one in read_catalogues(bucket)[0].services] == ["one", "two"]
    bucket.write(second, (bucket.read(second) or b"").replace(b'"two"', b'"TWO"'))
    assert [one.name for one in read_catalogues(bucket)[0].services] == ["one"]


def test_a_version_whose_ids_would_lead_elsewhere_does_not_count(
    world: World, duty: PublishCatalogue, bucket: Bucket
) -> None:
    service = world.create("one")
    duty.publish()
    (key,) = keys_in(bucket)
    _digest, _, content = (bucket.read(key) or b"").partition(b"\n")
    forged = content.replace(service.id.encode(), b"../../../etc")
    bucket.write(key, hashlib.sha256(forged).hexdigest().encode() + b"\n" + forged)
    assert read_catalogues(bucket) == []


def test_old_versions_are_removed_and_the_last_ones_of_other_installations_stay(
    world: World, duty: PublishCatalogue, bucket: Bucket
) -> None:
    world.create("first of all")
    duty.publish()
    (catalogue,) = read_catalogues(bucket)
    other = msgspec.structs.replace(catalogue, installation="2" * 32)
    for _ in range(25):
        write_catalogue(bucket, other)
    assert len(keys_in(bucket)) == 11
    assert [one.installation[0] for one in read_catalogues(bucket)] == ["2", "1"]


def test_who_lost_the_archive_does_not_write_a_catalogue(
    world: World, duty: PublishCatalogue, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    world.create()
    duty.publish()
    owner.take_over(bucket, "2" * 32)
    world.create("late")
    with caplog.at_level(logging.WARNING):
        duty.publish()
        duty.publish()
    assert len(keys_in(bucket)) == 1
    logged = [record.getMessage() for record in caplog.records if record.name == "ramet.recovery.publish"]
    assert logged == [f"the catalogue of the archive is not up to date: {duty._problem}"]
    assert "belongs to installation 22222222" in duty._problem


def test_a_store_that_does_not_answer_costs_nothing_but_time(
    world: World, duty: PublishCatalogue, bucket: Bucket
) -> None:
    world.create()
    away = replace(duty, bucket=open_bucket(bucket.url.replace("bucket-", "absent-")))
    away.publish()
    assert "does not exist" in away._problem
    away.bucket = bucket
    away.publish()
    assert len(keys_in(bucket)) == 1


def test_deleted_services_are_named_while_their_archive_is_there(world: World, duty: PublishCatalogue) -> None:
    archived, other = world.create("archived"), world.create("other")
    with world.store.write() as tx:
        times = {"archive_base_at": archived.created_at, "archive_from": archived.created_at}
        rows.update_service(tx, archived.id, **times)
    for service in (archived, other):
        services.delete_service(world.plane, world.project.id, service.id)
    world.worker.run_until_idle()
    duty.publish()
    (catalogue,) = read_catalogues(duty.bucket)
    assert catalogue.deleted == (archived.id,)
    assert catalogue.deleted_names == {archived.id: "archived"}
    assert catalogue.services == ()
    with world.store.write() as tx:
        rows.update_service(tx, archived.id, archive_from=None)  # as when the archive is removed
    duty.publish()
    (catalogue,) = read_catalogues(duty.bucket)
    assert (catalogue.deleted, catalogue.deleted_names) == ((), {})


def test_the_recovery_key_is_made_once_and_opens_what_it_sealed(tmp_path: Path) -> None:
    key = ensure_key(tmp_path)
    assert ensure_key(tmp_path) == key
    assert (tmp_path / "archive.key").stat().st_mode & 0o777 == 0o600
    assert read_key(tmp_path / "archive.key") == key
    secrets = Secrets(files={"root.key": b"root"})
    assert key.unseal(key.seal(secrets, "one"), "one") == secrets


def test_another_key_and_altered_secrets_are_distinguished(tmp_path: Path) -> None:
    key, other = ensure_key(tmp_path / "one"), ensure_key(tmp_path / "two")
    sealed = key.seal(Secrets(files={"root.key": b"root"}), "one")
    with pytest.raises(Invalid, match="is not the one that the archive was encrypted with") as wrong:
        other.unseal(sealed, "one")
    assert wrong.value.code == "WRONG_ARCHIVE_KEY"
    with pytest.raises(Invalid, match="were altered") as altered:
        key.unseal(sealed, "another installation")
    assert altered.value.code == "CATALOGUE_DAMAGED"


@pytest.mark.parametrize("text", ["", "short", "ä" * 43, "*" * 43, "A" * 44])
def test_a_file_without_a_recovery_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    with pytest.raises(Invalid, match="does not hold a recovery key") as refused:
        read_key(path)
    assert refused.value.code == "INVALID_ARCHIVE_KEY"


def test_a_recovery_key_is_never_printed(tmp_path: Path) -> None:
    key = ensure_key(tmp_path)
    assert key.secret.reveal() not in repr(key)
    assert "root" not in repr(Secrets(files={"root.key": b"root"}))
