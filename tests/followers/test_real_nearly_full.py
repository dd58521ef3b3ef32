"""A standby while the storage of its host is nearly full: it receives nothing, and follows again afterwards."""

import signal

import pytest

from harness.waiting import BOUND_SECONDS, eventually
from prove.ground import Ground
from ramet.backends.local.server import read_only_storage
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import value
from ramet.control.requests import CreateRequest
from ramet.errors import Failed
from ramet.followers.verbs import FollowRequest, follow_service
from ramet.model.passwords import Secret
from ramet.procedures.servers import server_of
from tests.followers.conftest import PASSWORD, limit_slots, start_again, url_of
from tests.followers.test_real_verbs import count_in, settled
from tests.sources import Source

pytestmark = pytest.mark.timeout(900)
_IS_RECEIVING = "SELECT EXISTS (SELECT FROM pg_stat_wal_receiver)"
_SLOTS = "SELECT wal_status FROM pg_replication_slots"


def test_a_standby_receives_nothing_on_nearly_full_storage_and_then_all_that_it_missed(
    ground: Ground, source: Source
) -> None:
    limit_slots(source)
    request = FollowRequest(CreateRequest("shop"), url_of(source), Secret(PASSWORD), creates_slot=True)
    standby = ground.accepted(follow_service(ground.plane, ground.project_id, request))
    settled(ground, standby)
    server, backend = server_of(standby.service), ground.plane.backend
    paths = backend.instances.paths(server.service_id)  # type: ignore[attr-defined]

    def is_receiving() -> bool:
        with connections.connect(paths) as connection:
            return bool(value(connection, _IS_RECEIVING))

    def append(number: int) -> None:
        source.run(f"INSERT INTO ledger VALUES ({number})")

    read_only_storage.set_read_only(paths, is_standby=True)
    append(101)
    eventually(lambda: count_in(standby) == 101, "at the limit it still follows")
    read_only_storage.set_read_only(paths, is_standby=True, receives=False)
    eventually(lambda: not is_receiving(), "the end of the connection")
    read_only_storage.set_read_only(paths, is_standby=True)  # the reserve of the storage was removed
    append(102)
    seen = backend.followers.observe(server)
    assert seen is not None
    assert (seen.needs_copy, str(seen.problem).split(".")[0]) == (
        False,
        "Nothing is received while the storage is nearly full",
    )
    assert (is_receiving(), count_in(standby)) == (False, 101)
    read_only_storage.set_writable(paths)
    eventually(lambda: count_in(standby) == 102, "what it missed")
    with source.connect() as connection:
        assert connection.execute(_SLOTS).fetchall() == [("reserved",)]


def test_a_source_that_was_shut_down_may_have_run_again_while_nothing_was_received(
    ground: Ground, source: Source
) -> None:
    request = FollowRequest(CreateRequest("shop"), url_of(source), Secret(PASSWORD))
    standby = ground.accepted(follow_service(ground.plane, ground.project_id, request))
    settled(ground, standby)
    server, followers = server_of(standby.service), ground.backend.followers
    paths = ground.backend.instances.paths(server.service_id)

    def left() -> str | None:
        return followers.await_end(server, None, drain=True)

    def shut_down() -> None:
        source.process.send_signal(signal.SIGINT)
        source.process.wait(BOUND_SECONDS)
        eventually(lambda: left() is None, "the end of the source")

    def is_unknown() -> bool:
        try:
            left()
        except Failed as failed:
            return failed.code == "SOURCE_END_UNKNOWN"
        return False

    eventually(lambda: "is running" in str(left()), "it streams")
    shut_down()
    read_only_storage.set_read_only(paths, is_standby=True, receives=False)
    assert left() == read_only_storage.NOT_RECEIVED
    read_only_storage.set_writable(paths)
    eventually(is_unknown, "the refusal")
    start_again(source)
    source.run("INSERT INTO ledger VALUES (101)")
    eventually(lambda: count_in(standby) == 101, "what it missed")
    shut_down()
