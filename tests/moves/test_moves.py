"""A service moves to another Ramet: with all of its rows, to one place at a time, and with what it had."""

from collections.abc import Mapping

import pytest

from ramet.backends.interface.replication import Trust
from ramet.control.labels import update_labels
from ramet.control.plane import utc_now
from ramet.control.poolers import enable_pooler
from ramet.control.protection import set_protection
from ramet.control.replica_sets import ReplicaSetRequest, create_set
from ramet.control.replication import set_wal_level
from ramet.control.services import delete_service, rename_service, set_environment, start_service
from ramet.control.sleep import set_sleep
from ramet.errors import Error, Failed, Invalid, WrongState
from ramet.followers.verbs import promote_service
from ramet.model.environment import Environment
from ramet.model.rights import Role
from ramet.model.service import status_of
from ramet.model.status import OperationStatus, Status
from ramet.model.timestamps import rfc3339
from ramet.model.wal_level import WalLevel, wal_level_of
from ramet.moves import procedure as steps
from ramet.moves.destination import Belongings, Source
from ramet.moves.verbs import cancel_move
from ramet.operations import transitions
from ramet.operations.procedure import Procedure
from ramet.operations.worker import Worker
from ramet.restores.verbs import RestoreRequest, get_restore, restore_service
from ramet.store import operations
from ramet.store.tables import operation
from ramet.upgrades.verbs import UpgradeRequest, upgrade_service
from tests import procedure_laws as laws
from tests.moves.conftest import ROWS, URL, Pair, Watched
from tests.moves.moving import go_on, held_at, run, shown
from tests.power_cuts import Disk


def test_a_service_is_at_the_other_ramet_with_its_rows_and_stays_here_paused(pair: Pair) -> None:
    service = pair.service()
    move_id = pair.request(service)
    pair.work()
    found, kept, (copy,) = shown(pair, move_id), pair.look(), pair.copies()
    assert (found.status, found.to_url, found.notes) == (OperationStatus.SUCCEEDED, URL, ())
    assert (found.target_id, found.address) == (copy.id, (copy.host, copy.port))
    assert (kept.name, status_of(kept)) == (found.kept_as, Status.PAUSED)
    assert kept.name.startswith("shop-moved-")
    assert (copy.name, copy.labels, pair.rows_there()) == ("shop", {}, ROWS)
    assert pair.places() == ["there"]
    assert pair.here.backend.volumes[service.id].copied_by is None


def test_unlogged_tables_which_the_copy_has_without_rows_are_noted(pair: Pair) -> None:
    service = pair.service()
    pair.here.backend.volumes[service.id].unlogged[:] = ["tsdb.sessions", "tsdb.cache"]
    move_id = pair.request(service)
    pair.work()
    (note,) = shown(pair, move_id).notes
    assert note.startswith("Unlogged tables are empty there: tsdb.sessions, tsdb.cache.")


def test_a_note_says_how_many_unlogged_tables_it_does_not_name(pair: Pair) -> None:
    service = pair.service()
    pair.here.backend.volumes[service.id].unlogged[:] = [f"tsdb.t{number}" for number in range(103)]
    move_id = pair.request(service)
    pair.work()
    (note,) = shown(pair, move_id).notes
    assert "tsdb.t98, tsdb.t99 and 3 more. The service" in note


STEPS = (
    "check", "admit", "follow", "catch_up", "claim", "settle", "stop", "drain", "promote", "equip", "end",
)  # fmt: skip
DECIDED = ("promote", "equip", "end")  # a failure from here on finds the service there, or about to be


def test_steps_that_run_twice_come_to_the_same_end(pair: Pair) -> None:
    def twice(one: Procedure) -> Procedure:
        for step in STEPS:
            one = laws.twice(one, step)
        return one

    assert run(pair, twice).status is OperationStatus.SUCCEEDED


def test_crashes_after_the_effect_of_each_step_come_to_the_same_end(pair: Pair) -> None:
    def crashing(one: Procedure) -> Procedure:
        for step in STEPS:
            one = laws.crashing(one, step)
        return one

    assert run(pair, crashing).status is OperationStatus.SUCCEEDED


@pytest.mark.parametrize("step", DECIDED)
def test_a_power_cut_does_not_take_back_that_a_move_is_decided(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    service = pair.service()
    move_id, disk = pair.request(service), Disk(pair.here, monkeypatch)
    with pytest.raises(laws.Crash):
        pair.work(
            Worker(pair.here.store, laws.rewritten(pair.here.procedures, "move", lambda one: laws.crashing(one, step)))
        )
    disk.cut_power()
    assert shown(pair, move_id).is_decided
    pair.work()
    assert shown(pair, move_id).status is OperationStatus.SUCCEEDED
    assert (pair.places(), pair.rows_there()) == (["there"], ROWS)


@pytest.mark.parametrize(("step", "after"), [("promote", False), *((step, True) for step in STEPS)])
def test_a_failure_at_a_step_leaves_the_service_at_one_place(pair: Pair, step: str, after: bool) -> None:
    found = run(pair, lambda one: laws.undone_twice(laws.failing(one, step, after=after)))
    assert found.status is OperationStatus.FAILED
    is_there = status_of(pair.look()) is Status.PAUSED
    assert is_there == (step in DECIDED and (step, after) != ("promote", False))


def test_what_a_service_has_goes_with_it(pair: Pair) -> None:
    service = pair.service()
    plane, project_id = pair.here.plane, pair.here.project.id
    enable_pooler(plane, project_id, service.id)
    set_protection(plane, project_id, service.id, protected=True)
    update_labels(plane, project_id, service.id, {"team": "shop"})
    set_environment(plane, project_id, service.id, Environment.PROD)
    set_wal_level(plane, project_id, service.id, WalLevel.LOGICAL)
    pair.work()
    found = shown(pair, pair.request(service, name="store"))
    pair.work()
    (copy,) = pair.copies()
    assert (copy.name, copy.environment, copy.protected) == ("store", Environment.PROD, True)
    assert (copy.labels, wal_level_of(copy.settings)) == ({"team": "shop"}, WalLevel.LOGICAL)
    assert copy.pooler_port is not None
    assert shown(pair, found.id).notes == ()


@pytest.mark.parametrize(("requested", "name"), [(None, "store"), ("shop", "shop")])
def test_a_name_and_an_environment_that_are_changed_while_a_service_is_copied_go_with_it(
    pair: Pair, requested: str | None, name: str
) -> None:
    move_id, blocked = held_at(pair, "claim", name=requested)
    plane, project_id = pair.here.plane, pair.here.project.id
    rename_service(plane, project_id, pair.moved, "store")
    set_environment(plane, project_id, pair.moved, Environment.PROD)
    go_on(pair, blocked)
    (copy,), found, kept = pair.copies(), shown(pair, move_id), pair.look()
    assert (copy.name, copy.environment, copy.labels) == (name, Environment.PROD, {})
    assert (found.status, found.name, found.notes) == (OperationStatus.SUCCEEDED, name, ())
    assert kept.name == found.kept_as
    assert kept.name.startswith("store-moved-")


def test_what_a_service_cannot_take_along_is_refused_with_all_reasons(pair: Pair) -> None:
    service = pair.service()
    plane, project_id = pair.here.plane, pair.here.project.id
    create_set(plane, project_id, service.id, ReplicaSetRequest("reports", 1, 500, 2))
    pair.here.backend.volumes[service.id].slots.add("analytics")
    pair.work()
    with pytest.raises(WrongState, match=r"read replica sets reports.*replication slots analytics"):
        pair.request(service)


def test_a_service_that_sleeps_is_not_moved(pair: Pair) -> None:
    service = pair.service()
    set_sleep(pair.here.plane, pair.here.project.id, service.id, 900)
    pair.work()
    with pytest.raises(WrongState, match="falls asleep"):
        pair.request(service)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"to_url": "ftp://there"}, "must be the URL"),
        ({"to_url": "http://there.example:8080"}, "could be read on their way"),
        ({"to_url": "https://key:secret@there.example"}, "contains a user"),
        ({"to_url": "https://there.example/?a=b"}, "must be the URL"),
        ({"name": ""}, "name must have"),
    ],
)
def test_an_address_or_a_name_that_cannot_be_is_refused(pair: Pair, fields: dict[str, str], wrong: str) -> None:
    with pytest.raises(Invalid, match=wrong):
        pair.request(pair.service(), **fields)


def test_a_prod_service_needs_its_name_and_one_move_at_a_time(pair: Pair) -> None:
    service = pair.service()
    set_environment(pair.here.plane, pair.here.project.id, service.id, Environment.PROD)
    with pytest.raises(Invalid, match="is a PROD service, and a move stops it here"):
        pair.request(service, confirm=None)
    pair.request(service)
    with pytest.raises(WrongState, match="is being moved already"):
        pair.request(service)


def test_a_key_that_is_no_admins_there_is_refused_before_anything_is_made(pair: Pair) -> None:
    key, secret = pair.there.projects.create_key(
        pair.there.project.id, "other", pair.there.plane.clock(), role=Role.DEVELOPER
    )
    move_id = pair.request(pair.service(), public_key=key.public_key, secret_key=secret)
    pair.work()
    assert "is no ADMIN there" in (shown(pair, move_id).error or "")
    assert (pair.places(), pair.copies()) == (["here"], [])


def test_the_keys_are_sealed_and_gone_when_it_is_over(pair: Pair) -> None:
    move_id = pair.request(pair.service())
    assert pair.there.secret.reveal() not in stored(pair, move_id)
    pair.work()
    with pair.here.store.read() as tx:
        found = operations.get(tx, move_id)
    assert found is not None
    assert (found.state["secret_key"], found.state["password"]) == (None, None)


def test_the_keys_are_gone_when_a_move_is_called_off(pair: Pair) -> None:
    service = pair.service()
    move_id = pair.request(service)
    cancel_move(pair.here.plane, pair.here.project.id, service.id, move_id)
    pair.work()
    assert shown(pair, move_id).status is OperationStatus.FAILED
    with pair.here.store.read() as tx:
        found = operations.get(tx, move_id)
    assert found is not None
    assert (found.state["secret_key"], found.state["password"]) == (None, None)


def stored(pair: Pair, move_id: str) -> str:
    with pair.here.store.read() as tx:
        return repr(tx.execute(operation.select().where(operation.c.id == move_id)).one())


@pytest.mark.parametrize("step", ["follow", "stop", "drain"])
def test_a_move_that_is_called_off_before_it_is_decided_leaves_the_service_here(pair: Pair, step: str) -> None:
    move_id, blocked = held_at(pair, step)
    cancel_move(pair.here.plane, pair.here.project.id, pair.moved, move_id)
    go_on(pair, blocked)
    assert shown(pair, move_id).status is OperationStatus.FAILED
    assert (pair.places(), pair.copies(), pair.look().name) == (["here"], [], "shop")


def test_what_is_written_until_the_stop_is_there(pair: Pair) -> None:
    _, blocked = held_at(pair, "stop")
    pair.here.backend.commit(pair.moved, "last")
    go_on(pair, blocked)
    assert pair.rows_there() == [*ROWS, "last"]


def test_nothing_is_written_between_the_stop_here_and_the_opening_there(pair: Pair) -> None:
    move_id, blocked = held_at(pair, "promote")
    assert pair.places() == []
    with pytest.raises(Error):
        pair.here.backend.commit(pair.moved, "late")
    with pytest.raises(WrongState, match="needs it to be"):
        start_service(pair.here.plane, pair.here.project.id, pair.moved)
    go_on(pair, blocked)
    assert shown(pair, move_id).status is OperationStatus.SUCCEEDED


def test_a_copy_that_did_not_receive_the_end_is_not_opened(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    move_id, blocked = held_at(pair, "stop")
    pair.streams = False
    pair.here.backend.commit(pair.moved, "last")
    monkeypatch.setattr(steps, "_DRAIN_WITHIN", -steps._DRAIN_WITHIN)
    go_on(pair, blocked)
    assert "has not received the end of this one" in (shown(pair, move_id).error or "")
    assert (pair.places(), pair.copies()) == (["here"], [])
    assert pair.here.backend.values(pair.moved) == [*ROWS, "last"]


def test_a_move_waits_for_the_other_ramet_while_the_copy_catches_up(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_id, blocked = held_at(pair, "catch_up")
    monkeypatch.setattr(transitions, "_LONGEST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(steps, "_PAUSE_SECONDS", 0.001)
    pair.is_away = True
    go_on(pair, blocked, 0.5)
    assert shown(pair, move_id).status is OperationStatus.RUNNING
    pair.is_away = False
    pair.work()
    assert (shown(pair, move_id).status, pair.places()) == (OperationStatus.SUCCEEDED, ["there"])


def test_while_nobody_answers_there_the_service_is_opened_nowhere(pair: Pair) -> None:
    move_id, blocked = held_at(pair, "promote")
    pair.is_away = True
    go_on(pair, blocked, 0.2)
    assert pair.places() == []
    with pytest.raises(WrongState, match="may have opened the service already"):
        cancel_move(pair.here.plane, pair.here.project.id, pair.moved, move_id)
    pair.is_away = False
    pair.work()
    assert (shown(pair, move_id).status, pair.places()) == (OperationStatus.SUCCEEDED, ["there"])


def test_a_move_whose_other_ramet_is_lost_is_given_up_by_an_admin(pair: Pair) -> None:
    move_id, blocked = held_at(pair, "promote")
    pair.is_away = True
    cancel_move(pair.here.plane, pair.here.project.id, pair.moved, move_id, target_is_lost=True)
    go_on(pair, blocked, 1.0)
    volume = pair.here.backend.volumes[pair.moved]
    assert (volume.is_open, [row.value for row in volume.rows]) == (True, ROWS)
    assert pair.look().name == "shop"
    pair.is_away = False
    go_on(pair, [])
    assert (pair.places(), pair.copies()) == (["here"], [])


def test_a_move_that_was_given_up_though_the_service_is_open_there_stays_there(pair: Pair) -> None:
    move_id, blocked = held_at(pair, "promote")
    (copy,) = pair.copies()
    there = pair.there.plane, pair.there.project.id
    promote_service(*there, copy.id, lsn=None, drain=True, neutralize=False, takes_place=True)
    cancel_move(pair.here.plane, pair.here.project.id, pair.moved, move_id, target_is_lost=True)
    go_on(pair, blocked)
    assert (pair.places(), pair.rows_there()) == (["there"], ROWS)
    assert status_of(pair.look()) is Status.PAUSED


@pytest.mark.parametrize("step", ["claim", "drain", "promote"])
def test_a_copy_that_is_deleted_there_leaves_the_service_here(pair: Pair, step: str) -> None:
    move_id, blocked = held_at(pair, step)
    (copy,) = pair.copies()
    delete_service(pair.there.plane, pair.there.project.id, copy.id)
    assert pair.copies() == []
    go_on(pair, blocked)
    assert shown(pair, move_id).status is OperationStatus.FAILED
    assert pair.places() == ["here"]


@pytest.mark.parametrize("step", ["admit", "catch_up", "claim"])
def test_a_service_that_is_deleted_here_is_moved_nowhere(pair: Pair, step: str) -> None:
    _, blocked = held_at(pair, step)
    delete_service(pair.here.plane, pair.here.project.id, pair.moved)
    go_on(pair, blocked)
    assert (pair.places(), pair.copies()) == ([], [])


def test_a_service_that_was_moved_can_be_started_here_again(pair: Pair) -> None:
    service = pair.service()
    pair.request(service)
    pair.work()
    start_service(pair.here.plane, pair.here.project.id, service.id)
    pair.work()
    assert pair.here.backend.values(service.id) == ROWS
    assert status_of(pair.look()) is Status.READY


@pytest.mark.parametrize(("names_host", "mode"), [(True, "verify-full"), (False, "verify-ca")])
def test_an_endpoint_with_an_authority_of_its_own_is_verified_by_that(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, names_host: bool, mode: str
) -> None:
    seen: list[Source] = []

    def note(elsewhere: Watched, belongings: Belongings, source: Source, mark: Mapping[str, str], key: str) -> str:
        seen.append(source)
        raise Failed("ENOUGH", "It was seen")

    trust = Trust("-----BEGIN CERTIFICATE-----", names_host)
    monkeypatch.setattr(pair.here.backend.host, "has_tls", lambda major: True)
    monkeypatch.setattr(pair.here.backend.replication, "trust", lambda server: trust)
    monkeypatch.setattr(Watched, "follow", note)
    pair.request(pair.service())
    pair.work()
    assert [(one.authority, f"sslmode={mode}" in one.url) for one in seen] == [(trust.authority, True)]
    assert status_of(pair.look()) is Status.READY


def test_a_service_is_not_moved_while_its_data_is_replaced_nor_the_other_way_around(pair: Pair) -> None:
    """The copy there would have the rows from before, also after the restore."""
    here = pair.here
    held_at(pair, "claim")
    with pytest.raises(WrongState) as moved:
        restore_service(here.plane, here.project.id, pair.moved, RestoreRequest(target_time=rfc3339(utc_now())))
    assert moved.value.code == "MOVE_UNDER_WAY"
    other = here.create("other")
    restore_service(here.plane, here.project.id, other.id, RestoreRequest(target_time=rfc3339(utc_now())))
    with pytest.raises(WrongState) as restored:
        pair.request(other)
    assert restored.value.code == "RESTORE_UNDER_WAY"


def test_a_service_that_is_moved_is_not_upgraded(pair: Pair) -> None:
    here = pair.here
    _, blocked = held_at(pair, "catch_up")
    request = UpgradeRequest(max(here.backend.upgrades.majors()))
    with pytest.raises(Invalid, match="the move under way") as refused:
        upgrade_service(here.plane, here.project.id, pair.moved, request)
    assert refused.value.code == "UPGRADE_REFUSED"
    go_on(pair, blocked)
    assert pair.places() == ["there"]


def test_a_service_whose_move_was_called_off_is_restored_though_the_other_ramet_is_away(pair: Pair) -> None:
    here = pair.here
    move_id, blocked = held_at(pair, "catch_up")
    pair.is_away = True
    cancel_move(here.plane, here.project.id, pair.moved, move_id)
    go_on(pair, blocked, 1.0)
    assert shown(pair, move_id).status is OperationStatus.UNDOING
    request = RestoreRequest(target_time=rfc3339(utc_now()))
    begun = restore_service(here.plane, here.project.id, pair.moved, request)
    pair.work()
    found = get_restore(here.plane, here.project.id, pair.moved, begun.id)
    assert (found.status, here.backend.values(pair.moved)) == (OperationStatus.SUCCEEDED, ROWS)
    pair.is_away = False
    go_on(pair, [])
    assert (pair.places(), pair.copies()) == (["here"], [])
