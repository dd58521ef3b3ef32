"""The pool fills in idle time, holds nothing that is too old or does not fit, and gives way."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest

from ramet.backends.interface.values import Server, Source
from ramet.backends.memory.restore import MemoryRestore
from ramet.control.duties.health import Health
from ramet.control.forks import fork_services
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.services import create_service
from ramet.errors import Exhausted, Failed
from ramet.events.recorder import EventRecorder
from ramet.followers.observation import Observing
from ramet.model import warm_forks
from ramet.model.events import EventFilter, EventType
from ramet.model.fork import ForkStrategy
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.store import events, running, services
from ramet.warm_forks import claims, keeping
from ramet.warm_forks.giving_way import give_way
from ramet.warm_forks.keeping import KeepingWarm
from tests.api.world import World
from tests.warm_forks.conftest import Warm


def shown(warm: Warm) -> dict[str, object]:
    return dict(warm.world.get(warm.path).json())


def test_forks_are_made_one_at_a_time_and_not_while_others_are_being_started(warm: Warm) -> None:
    warm.keep(3)
    assert shown(warm) | {"oldest_state": ""} == {
        "size": 3,
        "max_age_seconds": 600,
        "ready": 3,
        "being_made": 0,
        "oldest_state": "",
    }
    assert warm.world.look(warm.shop)["metadata"]["warm_forks"] == 3
    taken = warm.world.fork(warm.shop)
    warm.world.create(name="being made")
    warm.keeper.maintain()
    assert len(warm.ids()) == 2
    warm.world.work()
    warm.keeper.maintain()
    warm.keeper.maintain()
    assert shown(warm)["being_made"] == 1
    warm.tend()
    assert len(warm.ids()) == 3
    assert taken["service_id"] not in warm.ids()


def test_a_pool_that_is_made_smaller_or_dropped_lets_its_forks_go(warm: Warm) -> None:
    warm.keep(3)
    warm.keep(1)
    assert len(warm.ids()) == 1
    assert warm.world.delete(warm.path).status_code == 204
    warm.tend(1)
    assert (warm.ids(), shown(warm)) == (set(), {"size": 0, "automatic": True, "ready": 0, "being_made": 0})
    assert set(warm.world.backend.volumes) == {warm.shop["service_id"]}


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("stop", None),
        ("resize", {"cpu_millis": "500", "memory_gbs": "2"}),
        ("settings", {"settings": {"work_mem": "8MB"}}),
        ("setWalLevel", {"wal_level": "logical"}),
    ],
)
def test_forks_go_when_their_parent_is_changed(warm: Warm, verb: str, body: object) -> None:
    warm.keep(2)
    before = warm.ids()
    answer = warm.world.post(warm.world.path(warm.shop["service_id"], verb), body)
    assert answer.status_code == 202, answer.text
    warm.world.work()
    assert warm.world.fork(warm.shop, max_age_seconds=3600)["status"] == "QUEUED"  # none is given before it is gone
    warm.tend()
    assert not before & warm.ids()
    assert len(warm.ids()) == (0 if verb == "stop" else 2)


def test_forks_from_before_a_restore_are_given_to_nobody(warm: Warm) -> None:
    warm.keep(1)
    (before,) = warm.ids()
    path = warm.world.path(warm.shop["service_id"], "restores")
    (taken, *_) = warm.world.get(warm.world.path(warm.shop["service_id"], "snapshots")).json()
    assert warm.world.post(path, {"snapshot": taken["id"], "keep_previous": False}).status_code == 202
    assert warm.world.fork(warm.shop, max_age_seconds=3600)["service_id"] != before
    warm.world.work()
    assert warm.world.fork(warm.shop, max_age_seconds=3600)["service_id"] != before
    warm.tend()
    assert before not in warm.ids()


def test_forks_go_when_new_services_announce_another_host(warm: Warm) -> None:
    warm.keep(1)
    placement = replace(warm.world.plane.placement, endpoint_host="db.example.com")
    plane = replace(warm.world.plane, placement=placement)
    ask = partial(claims.fork_services, plane, warm.world.tenant.project.id, warm.shop["service_id"])
    (made,) = ask(ForkRequest(ForkStrategy.NOW))
    assert (made.service.id in warm.ids(), made.service.host) == (False, "db.example.com")
    warm.world.work()
    warm.keeper = KeepingWarm(plane)
    warm.tend()
    (warmed,) = ask(ForkRequest(ForkStrategy.NOW))
    assert (status_of(warmed.service), warmed.service.host) == (Status.READY, "db.example.com")


def standby(warm: Warm, until: datetime | None) -> Warm:
    """A service of the same world that follows a source with two rows, and has all until a time; it keeps nothing."""
    warm.world.backend.followers.rows[:] = ["one", "two"]
    warm.world.backend.followers.complete_until = until
    body = {
        "name": "copy",
        "source_url": "postgresql://replicator@db.example/shop",
        "source_password": "source",
        "environment_tag": "PROD",
    }
    answer = warm.world.post(warm.world.services_path.removesuffix("services") + "followers", body)
    assert answer.status_code == 202, answer.text
    warm.world.work()
    return Warm(warm.world, answer.json())


def test_forks_of_a_standby_are_as_old_as_what_it_has_received(warm: Warm) -> None:
    world, until = warm.world, warm.world.clock()
    of_standby = standby(warm, until)
    world.advance(timedelta(minutes=4))
    of_standby.keep(2)
    kept = of_standby.ids()
    assert len(kept) == 2
    assert world.fork(of_standby.shop, max_age_seconds=60)["status"] == "QUEUED"
    fork = world.fork(of_standby.shop, max_age_seconds=600)
    assert (fork["status"], of_standby.rows(fork)) == ("READY", ["one", "two"])
    assert datetime.fromisoformat(world.look(fork)["metadata"]["data_time"]) == until
    world.work()
    world.advance(timedelta(minutes=2))
    of_standby.tend()
    assert kept - of_standby.ids() == {fork["service_id"]}
    assert len(of_standby.ids()) == 2
    world.advance(timedelta(minutes=5))
    of_standby.tend()
    assert of_standby.ids() == set()


def test_forks_of_a_standby_are_replaced_before_they_are_too_old_when_it_has_received_more(warm: Warm) -> None:
    world, until = warm.world, warm.world.clock() - timedelta(seconds=400)
    of_standby = standby(warm, until)
    of_standby.keep(1)
    kept = of_standby.ids()
    assert len(kept) == 1
    of_standby.tend()
    assert of_standby.ids() == kept  # another one would be as old
    world.backend.followers.complete_until = until + timedelta(seconds=350)
    world.advance(timedelta(minutes=1))  # observations are recorded every few seconds
    Observing(world.plane).observe_standbys()
    of_standby.tend()
    assert len(of_standby.ids()) == 1
    assert not of_standby.ids() & kept


def test_no_forks_are_kept_of_a_standby_of_which_is_not_known_what_it_has_received(warm: Warm) -> None:
    of_standby = standby(warm, None)
    of_standby.keep(1)
    assert of_standby.ids() == set()


def test_forks_from_before_a_promotion_are_given_to_nobody(warm: Warm) -> None:
    of_standby, world = standby(warm, warm.world.clock()), warm.world
    of_standby.keep(1)
    (before,) = of_standby.ids()
    assert world.post(world.path(of_standby.shop["service_id"], "promote"), {}).status_code == 202
    world.work()
    assert world.fork(of_standby.shop, max_age_seconds=600)["service_id"] != before


def test_forks_that_an_earlier_release_made_are_given_to_nobody(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    warm.keep(1)
    before = warm.ids()
    for module in (keeping, warm_forks):
        monkeypatch.setattr(module, "__version__", "later")
    assert warm.world.fork(warm.shop)["status"] == "QUEUED"
    warm.world.work()
    warm.tend()
    assert not before & warm.ids()
    assert warm.world.fork(warm.shop)["status"] == "READY"


def test_forks_go_with_their_parent(warm: Warm) -> None:
    warm.keep(2)
    warm.world.delete(warm.world.path(warm.shop["service_id"]))
    warm.world.work()
    warm.tend(1)
    assert (warm.ids(), warm.world.backend.volumes) == (set(), {})


def test_a_state_that_is_too_old_is_replaced_and_one_that_is_still_the_newest_is_not(warm: Warm) -> None:
    warm.keep(2, max_age_seconds=60)
    kept = warm.ids()
    for _ in range(4):
        warm.world.advance(timedelta(seconds=40))
        warm.tend(2)
    assert warm.ids() == kept
    assert warm.world.fork(warm.shop, max_age_seconds=60)["service_id"] in kept
    warm.tend()
    kept = warm.ids()
    warm.write()
    warm.world.advance(timedelta(seconds=61))
    assert warm.world.fork(warm.shop, max_age_seconds=60)["status"] == "QUEUED"
    warm.tend()
    assert (len(warm.ids()), warm.ids() & kept) == (2, set())


def test_a_state_is_not_younger_than_the_look_at_its_parent(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    warm.keep(1, max_age_seconds=60)
    replication = warm.world.backend.replication
    look = replication.commit_mark

    def pause_after_look(server: Server) -> str | None:
        mark = look(server)
        warm.world.advance(timedelta(seconds=61))
        warm.write()
        return mark

    warm.world.advance(timedelta(seconds=40))
    with monkeypatch.context() as patched:
        patched.setattr(replication, "commit_mark", pause_after_look)
        warm.keeper.maintain()
    assert warm.world.fork(warm.shop, max_age_seconds=60)["status"] == "QUEUED"


def test_no_state_older_than_the_pool_allows_is_given_while_nobody_tends_it(warm: Warm) -> None:
    warm.keep(1, max_age_seconds=60)
    warm.write()
    warm.world.advance(timedelta(seconds=61))
    assert warm.world.fork(warm.shop, max_age_seconds=3600)["status"] == "QUEUED"
    warm.world.backend.crash(warm.shop["service_id"])
    set_down(warm, warm.shop["service_id"])
    warm.keeper.maintain()
    assert all(one.activity is not None for one in warm.forks())  # deleted, although its parent is down


def test_forks_are_replaced_soon_when_a_service_that_was_written_to_is_quiet_again(warm: Warm) -> None:
    warm.keep(2)
    kept = warm.ids()
    warm.write()
    warm.tend(2)
    assert warm.ids() == kept
    warm.tend()
    assert (len(warm.ids()), warm.ids() & kept) == (2, set())
    fork = warm.world.fork(warm.shop)
    assert (fork["status"], warm.rows(fork)) == ("READY", ["first", "more"])


def test_a_fork_whose_server_cannot_be_started_is_replaced(warm: Warm) -> None:
    warm.keep(1)
    (dead,) = warm.forks()
    set_down(warm, dead.id)
    warm.keeper.maintain()
    assert [one.activity for one in warm.forks()] == [None]
    warm.tend()
    assert (len(warm.ids()), dead.id in warm.ids()) == (1, False)


def test_a_fork_that_waits_to_be_started_again_is_kept(warm: Warm) -> None:
    warm.keep(1)
    (stopped,) = warm.forks()
    warm.world.backend.crash(stopped.id)
    Health(warm.world.plane).inspect()
    for _ in range(30):
        warm.keeper.maintain()
    warm.tend()
    assert [(one.id, status_of(one)) for one in warm.forks()] == [(stopped.id, Status.READY)]
    set_down(warm, stopped.id)
    warm.keeper.maintain()
    assert [one.activity for one in warm.forks()] == [None]


def set_down(warm: Warm, service_id: str) -> None:
    with warm.world.store.write() as tx:
        services.update_service(tx, service_id, down_reason="Its server is not running.")


def test_none_are_kept_where_forks_fall_asleep(warm: Warm) -> None:
    warm.keep(2)
    project = warm.world.tenant.project.id
    warm.world.projects.change_limits(project, {"fork_sleep_after_seconds": 900})
    warm.tend()
    assert warm.ids() == set()
    credentials = warm.world.tenant.credentials
    answer = warm.world.client.put(warm.path, json={"size": 2}, auth=credentials)
    assert (answer.status_code, answer.json()["code"]) == (400, "FORKS_FALL_ASLEEP")
    assert warm.world.client.put(warm.path, json={"size": 0}, auth=credentials).status_code == 200
    warm.world.projects.change_limits(project, {"fork_sleep_after_seconds": None})
    warm.keep(2)
    assert len(warm.ids()) == 2


def test_forks_give_way_when_the_host_is_full_and_are_not_made_where_they_would_fill_it(warm: Warm) -> None:
    warm.keep(2)
    world = full(warm, startable=0)
    project_id = world.tenant.project.id
    create_service(world.plane, project_id, CreateRequest("second"))
    assert sum(one.activity is None for one in warm.forks()) == 1
    with pytest.raises(Exhausted, match="room for 0 more"):  # the second one alone is not enough, and stays
        create_service(world.plane, project_id, CreateRequest("third"))
    assert sum(one.activity is None for one in warm.forks()) == 1
    world.work()
    world.backend.startable = 1
    warm.tend()
    assert len(warm.ids()) == 1
    world.backend.startable = 2
    warm.tend()
    assert len(warm.ids()) == 2


def test_a_refusal_of_a_full_host_names_nothing_that_its_reader_cannot_see(warm: Warm) -> None:
    warm.keep(2)
    world = full(warm, startable=0)
    with pytest.raises(Exhausted, match="3 servers run, 1 of them yours: shop"):
        fork_services(world.plane, world.tenant.project.id, warm.shop["service_id"], ForkRequest(ForkStrategy.NOW), 3)


def full(warm: Warm, startable: int) -> World:
    """Return the world as it is when the host has room for so many more servers."""
    warm.world.backend.startable = startable
    plane = replace(warm.world.plane, give_way=partial(give_way, warm.world.plane))
    return replace(warm.world, plane=plane)


def test_memory_that_may_come_to_be_needed_is_given_up_too(warm: Warm) -> None:
    warm.keep(2)
    with warm.world.store.read() as tx:
        warm.world.backend.committed_mbs = running.committed_mbs(tx)
    world = full(warm, startable=100)
    create_service(world.plane, world.tenant.project.id, CreateRequest("second"))
    assert sum(one.activity is None for one in warm.forks()) == 1


def test_a_fork_that_gives_way_makes_room_within_both_bounds(warm: Warm) -> None:
    warm.keep(2)
    with warm.world.store.read() as tx:
        warm.world.backend.committed_mbs = running.committed_mbs(tx)
    world = full(warm, startable=0)
    for left in (1, 0):
        create_service(world.plane, world.tenant.project.id, CreateRequest("another"))
        assert sum(one.activity is None for one in warm.forks()) == left
        world.work()


def test_a_fork_that_cannot_be_made_is_not_tried_again_at_once(warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def capture(self: object, child: Server, source: Source) -> None:
        tried.append(child.service_id)
        raise Failed("BROKEN", "It is broken")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryRestore, "capture", capture)
        warm.keep(1)
    assert (len(tried), warm.ids()) == (1, set())
    warm.world.advance(timedelta(minutes=2))
    warm.tend()
    assert len(warm.ids()) == 1


def test_events_tell_of_a_fork_when_a_client_has_it(warm: Warm) -> None:
    warm.world.store.recorders.insert(0, EventRecorder(warm.world.clock).record)
    warm.keep(1)

    def ready() -> list[str | None]:
        with warm.world.store.read() as tx:
            found = events.list_events(tx, EventFilter(warm.world.tenant.project.id), 100)
        return [one.service_id for one in found if one.type is EventType.SERVICE_READY]

    assert ready() == []
    fork = warm.world.fork(warm.shop)
    assert ready() == [fork["service_id"]]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"size": -1}, "INVALID_SIZE"),
        ({"size": 21}, "INVALID_SIZE"),
        ({"size": 1, "max_age_seconds": 5}, "INVALID_MAX_AGE_SECONDS"),
    ],
)
def test_a_pool_out_of_range_is_refused(warm: Warm, body: dict[str, int], code: str) -> None:
    answer = warm.world.client.put(warm.path, json=body, auth=warm.world.tenant.credentials)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
