"""Warm forks with real servers: as good as any fork, exact, and given to one client only, also when Ramet is killed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import psycopg
import pytest

from harness.instance import Instance, connect, running_instance
from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.client import Client, ForkStrategy
from ramet.errors import Error
from ramet.model.rights import Role
from ramet.model.status import Status
from ramet.warm_forks.demand import OFTEN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_KEPT = 4
_ASKING = 20
_ROLE = "CREATE ROLE app LOGIN PASSWORD 'of the app'; CREATE TABLE notes (n int); GRANT SELECT ON notes TO app"


@pytest.fixture(scope="module")
def ramet() -> Iterator[Instance]:
    with running_instance() as made:
        yield made


def test_real_warm_forks_are_exact_closed_to_the_parents_roles_and_given_once(ramet: Instance) -> None:
    with ramet.client() as client:
        made = client.create_service("shop")
        shop, password = client.wait_ready(made.service_id), str(made.initial_password)
        with connect(shop.endpoint.port, password) as session:
            session.execute(_ROLE)
            session.execute("INSERT INTO notes VALUES (1)")
        client.set_warm_forks(shop.service_id, _KEPT)
        _await_state(client, shop, made.created)
        _await_state(client, shop, _is_exact_and_of_its_own(client, shop, password))
        given = _ask_at_once(ramet, client, shop)
        assert len({one.service_id for one in given.values()}) == len(given) == _KEPT
        assert Status.READY in {one.status for one in given.values()}
        assert all(one.name == f"fork {key}" for key, one in given.items())
        for one in given.values():
            client.wait_ready(one.service_id)
            with connect(one.endpoint.port, str(one.initial_password)) as session:
                assert session.execute("SELECT count(*) FROM notes").fetchone() == (2,)
        client.delete_warm_forks(shop.service_id)
        for one in given.values():
            client.delete_service(one.service_id)
        eventually(lambda: [one.name for one in client.list_services()] == ["shop"], "the deletions", 0.2)
        ramet.await_idle()
        assert ramet.leftovers() == []


def _await_state(client: Client, shop: Service, since: datetime) -> None:
    """Wait until the pool is full of forks that have what was committed before a time: others are replaced."""

    def is_exact() -> bool:
        found = client.get_warm_forks(shop.service_id)
        return found.ready == _KEPT and found.oldest_state is not None and found.oldest_state > since

    eventually(is_exact, "a full pool", 0.2, seconds=120)


def _is_exact_and_of_its_own(client: Client, shop: Service, password: str) -> datetime:
    """Fork at once after a commit that no warm fork has; then one that may be older. Return a time after the commit."""
    with connect(shop.endpoint.port, password) as session:
        session.execute("INSERT INTO notes VALUES (2)")
    committed_at = datetime.now(UTC)
    exact = client.fork_service(shop.service_id, ForkStrategy.NOW)
    assert exact.status is Status.QUEUED
    older = client.fork_service(shop.service_id, ForkStrategy.NOW, max_age_seconds=600)
    assert older.status is Status.READY
    for fork, rows in ((older, 1), (client.wait_ready(exact.service_id), 2)):
        own = str(older.initial_password if fork is older else exact.initial_password)
        with connect(fork.endpoint.port, own) as session:
            assert session.execute("SELECT count(*) FROM notes").fetchone() == (rows,)
        for user, secret in (("tsdbadmin", password), ("app", "of the app")):
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                connect(fork.endpoint.port, secret, user=user)
        client.delete_service(fork.service_id)
    return committed_at


def _ask_at_once(ramet: Instance, client: Client, shop: Service) -> dict[int, Service]:
    """Let many ask at once with keys of their own, kill Ramet then, and let each ask again; return who got one.

    Their API key may make as many forks as there are warm ones, so that the others are refused.
    """
    key = client.create_key("tests", Role.FORKER, parents=[shop.service_id], max_forks=_KEPT)
    with Client(client.base_url, client.project_id, key.public_key, key.secret_key) as forker:

        def ask(number: int) -> Service | None:
            try:
                return forker.fork_service(
                    shop.service_id,
                    ForkStrategy.NOW,
                    name=f"fork {number}",
                    idempotency_key=f"key-{number}",
                    max_age_seconds=600,  # Ramet commits when it starts, and so does autovacuum
                )
            except Error:  # a refusal, or Ramet was killed
                return None

        with ThreadPoolExecutor(_ASKING) as asking:
            first = [asking.submit(ask, number) for number in range(_ASKING)]
            eventually(lambda: any(one.done() for one in first), "the first answer")
            ramet.kill()
            lost = {number: one.result() for number, one in enumerate(first)}
            ramet.up()
            found = {number: ask(number) for number in range(_ASKING)}
    for number, one in lost.items():
        again = found[number]
        assert one is None or (again is not None and again.service_id == one.service_id)
    return {number: one for number, one in found.items() if one is not None}


def test_a_real_service_that_is_forked_often_gets_warm_forks_by_itself_and_leaves_nothing() -> None:
    with running_instance(RAMET_AUTOMATIC_WARM_FORKS="2") as ramet, ramet.client() as client:
        shop = client.create_service("shop")
        client.wait_ready(shop.service_id)
        for _ in range(OFTEN):
            fork = client.fork_service(shop.service_id, ForkStrategy.NOW)
            client.wait_ready(fork.service_id)
            client.delete_service(fork.service_id)
        eventually(lambda: client.get_warm_forks(shop.service_id).ready == 2, "warm forks", 0.5, seconds=300)
        with connect(shop.endpoint.port, str(shop.initial_password)) as session:
            session.execute("CREATE TABLE notes AS SELECT 1 AS n")
        fork = client.fork_service(shop.service_id, ForkStrategy.NOW)
        assert fork.status is Status.QUEUED
        client.wait_ready(fork.service_id)
        with connect(fork.endpoint.port, str(fork.initial_password)) as session:
            assert session.execute("SELECT n FROM notes").fetchone() == (1,)
        for one in (fork, shop):
            client.delete_service(one.service_id)
        ramet.await_idle()
        eventually(lambda: not ramet.leftovers(), "the end of all warm forks", 0.5)
