"""A standby with a slot, and one with its source's WAL archive: both catch up with what came during a pause."""

from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.client import ApiError, Client
from tests.followers.conftest import limit_slots, remove_wal, restart, start_again
from tests.followers.test_real_followers import append, follow, shows
from tests.sources import Source

_SECONDS = 300.0
_LEDGER = "SELECT n FROM ledger ORDER BY n"
_SLOTS = "SELECT slot_name::text, active, wal_status FROM pg_replication_slots"


def slots(source: Source) -> list[tuple[object, ...]]:
    with source.connect() as connection:
        return connection.execute(_SLOTS).fetchall()


def test_a_slot_of_its_own_keeps_the_wal_and_is_dropped_at_the_promotion_and_with_the_service(
    client: Client, newest_source: Source
) -> None:
    source = newest_source
    with pytest.raises(ApiError) as refused:
        follow(client, source, create_slot=True)
    assert "max_slot_wal_keep_size is -1" in str(refused.value)
    limit_slots(source)
    made, other = follow(client, source, create_slot=True), follow(client, source, create_slot=True)
    names = {f"ramet_{one.service_id}" for one in (made, other)}
    eventually(lambda: {(name, True, "reserved") for name in names} == set(slots(source)), "both are active")

    client.stop_service(made.service_id)
    client.wait_paused(made.service_id, timeout_seconds=_SECONDS)
    for _ in range(8):
        source.run("SELECT pg_switch_wal()")
        source.run("CHECKPOINT")
    append(source, 101)
    client.start_service(made.service_id)
    client.wait_ready(made.service_id, timeout_seconds=_SECONDS)
    eventually(lambda: (101,) in shows(made.endpoint.port, _LEDGER), "what came during the pause")

    client.promote_service(made.service_id)
    client.wait_ready(made.service_id, timeout_seconds=_SECONDS)
    assert [name for name, _, _ in slots(source)] == [f"ramet_{other.service_id}"]
    client.delete_service(other.service_id)
    client.wait_deleted(other.service_id, timeout_seconds=_SECONDS)
    assert slots(source) == []
    client.delete_service(made.service_id)


def test_a_service_whose_source_is_away_is_deleted_and_its_slot_stays(client: Client, newest_source: Source) -> None:
    limit_slots(newest_source)
    made = follow(client, newest_source, create_slot=True)
    newest_source.kill()
    client.delete_service(made.service_id)
    client.wait_deleted(made.service_id, timeout_seconds=_SECONDS)
    start_again(newest_source)
    assert [name for name, _, _ in slots(newest_source)] == [f"ramet_{made.service_id}"]


def test_what_the_source_has_removed_comes_from_its_archive(
    client: Client, newest_source: Source, archives: Path
) -> None:
    source = newest_source
    with pytest.raises(ApiError, match="has no directory 'shop'"):
        follow(client, source, archive="shop")
    (archives / "shop").mkdir()
    (archives / "shop").chmod(0o777)
    restart(source, archive_mode="on", archive_command=f"install -m 644 %p {archives}/shop/%f")
    made = follow(client, source, archive="shop")
    client.stop_service(made.service_id)
    client.wait_paused(made.service_id, timeout_seconds=_SECONDS)
    append(source, 101)
    remove_wal(source)
    append(source, 102)
    client.start_service(made.service_id)
    client.wait_ready(made.service_id, timeout_seconds=_SECONDS)
    eventually(lambda: (102,) in shows(made.endpoint.port, _LEDGER), "what came during the pause")
    assert (101,) in shows(made.endpoint.port, _LEDGER)
    client.delete_service(made.service_id)
