"""What verbs do with a real standby of a database elsewhere, and with its forks; tests/api has the table of all."""

import psycopg
import pytest

from harness.waiting import eventually
from prove.ground import Ground, Running
from ramet.control import services
from ramet.control.requests import CreateRequest, ForkRequest
from ramet.control.restore import take_snapshot
from ramet.followers.observation import Observing
from ramet.followers.verbs import FollowRequest, follow_service
from ramet.ids import new_id
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.passwords import Secret
from ramet.model.procedures import ProcedureName
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.procedures.spec import submit
from ramet.procedures.state import DrillState
from ramet.store import operations
from tests.followers.conftest import PASSWORD, start_again, url_of
from tests.sources import Source

pytestmark = pytest.mark.timeout(900)
_COUNT = "SELECT count(*) FROM ledger"


def settled(ground: Ground, running: Running) -> None:
    """Wait until nothing is under way, and the service is READY."""

    def is_settled() -> bool:
        with ground.store.read() as tx:
            return not operations.is_busy(tx) and status_of(ground.look(running)) is Status.READY

    eventually(is_settled, "the end of all operations")


def drilled(ground: Ground, running: Running) -> str | None:
    """Let a drill run to its end; return why it failed."""
    settled(ground, running)
    before = ground.look(running).drilled_at
    with ground.store.write() as tx:
        submit(tx, ProcedureName.DRILL, running.service.id, DrillState(drill_id=new_id(), is_off_host=False))
    ground.plane.wake()
    eventually(lambda: ground.look(running).drilled_at != before, "the drill")
    return ground.look(running).drill_failure


def rows_of(running: Running) -> int:
    with running.connect() as connection:
        return int(str(connection.execute(_COUNT).fetchall()[0][0]))


def count_in(running: Running) -> int:
    """Count the rows of a standby, as a role of its source."""
    with psycopg.connect(
        host="localhost", port=running.service.port, user="app", password="app", dbname="shop", connect_timeout=30
    ) as connection:
        return int(connection.execute(_COUNT).fetchall()[0][0])


def test_a_standby_is_drilled_paused_resized_and_renamed_and_its_forks_are_forked(
    ground: Ground, newest_source: Source
) -> None:
    source, project_id = newest_source, ground.project_id
    request = FollowRequest(CreateRequest("shop"), url_of(source), Secret(PASSWORD))
    standby = ground.accepted(follow_service(ground.plane, project_id, request))
    assert drilled(ground, standby) is None
    services.rename_service(ground.plane, project_id, standby.service.id, "other")
    services.set_environment(ground.plane, project_id, standby.service.id, Environment.PROD)
    ground.pause(standby)
    source.run("INSERT INTO ledger VALUES (101)")
    paused = ground.fork(standby, ForkRequest(ForkStrategy.NOW))
    assert rows_of(paused) == 100
    ground.resume(standby)
    services.resize_service(ground.plane, project_id, standby.service.id, "500", "2")
    settled(ground, standby)
    eventually(lambda: count_in(standby) == 101, "the row of the pause")
    take_snapshot(ground.plane, project_id, standby.service.id, "first")
    settled(ground, standby)
    fork = ground.fork(standby, ForkRequest(ForkStrategy.LAST_SNAPSHOT))
    with fork.connect() as connection:
        connection.execute("INSERT INTO ledger VALUES (-1)")
    assert drilled(ground, fork) is None
    again = ground.fork(fork, ForkRequest(ForkStrategy.NOW))
    assert (rows_of(fork), rows_of(again), count_in(standby)) == (102, 102, 101)
    source.kill()
    eventually(lambda: _problem(ground, standby) is not None, "the source is away")
    for one in (fork, again, paused):
        ground.delete(one)
    assert drilled(ground, standby) is None
    start_again(source)
    ground.delete(standby)


def _problem(ground: Ground, standby: Running) -> str | None:
    Observing(ground.plane).observe_standbys()
    seen = ground.look(standby).following
    return None if seen is None else seen.problem
