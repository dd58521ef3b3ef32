"""`follow --method logical` by the whole product: from sources of other versions, forked, promoted and deleted."""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest

from harness.instance import Instance, connect
from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.client import Client, ForkStrategy
from ramet.client.errors import ApiError
from ramet.model.upstream import FollowMethod
from ramet.model.wal_level import WalLevel
from tests.sources import MAJORS, OWNER, PASSWORD, Source, open_source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_HBA = "local all all scram-sha-256\nhost all all all scram-sha-256\n"
_ROWS = "SELECT id, note FROM orders ORDER BY id"
_SLOTS = "SELECT slot_name FROM pg_replication_slots"


@pytest.fixture(params=[min(MAJORS), max(MAJORS)])
def source(request: pytest.FixtureRequest) -> Iterator[Source]:
    """A source of the oldest and of the newest version."""
    with shop(request.param) as made:
        yield made


@contextlib.contextmanager
def shop(major: int) -> Iterator[Source]:
    """Run a source with rows; without TLS, which the wheel's PostgreSQL has not."""
    with open_source(major) as made:
        (made.directory / "data" / "pg_hba.conf").write_text(_HBA)
        made.run("SELECT pg_reload_conf()")
        made.run("CREATE TABLE orders (id serial PRIMARY KEY, note text)")
        made.run("INSERT INTO orders (note) SELECT 'order ' || n FROM generate_series(1, 500) n")
        yield made


@pytest.fixture
def client(ramet: Instance) -> Iterator[Client]:
    """A client of the running Ramet."""
    with ramet.client() as opened:
        yield opened


def url_of(source: Source) -> str:
    return f"postgresql://{OWNER}@localhost:{source.own_port}/shop?sslmode=disable"


def rows_of(service: Service, password: str) -> list[tuple[object, ...]]:
    with connect(service.endpoint.port, password) as inside:
        return inside.execute(_ROWS).fetchall()


def rows_of_source(source: Source) -> list[tuple[object, ...]]:
    with source.connect() as outside:
        return outside.execute(_ROWS.encode()).fetchall()


@contextlib.contextmanager
def following(client: Client, source: Source) -> Iterator[tuple[Service, str]]:
    """Make a service that follows the source; it is deleted at the end."""
    accepted = client.follow_database("shop", url_of(source), PASSWORD, method=FollowMethod.LOGICAL)
    made = client.wait_ready(accepted.service_id, timeout_seconds=300)
    try:
        yield made, str(accepted.initial_password)
    finally:
        client.delete_service(made.service_id)
        client.wait_deleted(made.service_id, timeout_seconds=120)


def test_a_database_of_another_version_moves_here_with_sequences(client: Client, source: Source) -> None:
    with following(client, source) as (service, password):
        source.run("INSERT INTO orders (note) VALUES ('while it follows')")
        eventually(lambda: rows_of(service, password) == rows_of_source(source), "the change", 0.2)

        def shown() -> str | None:
            following = client.get_service(service.service_id).metadata.following
            return None if following is None or following.lag_bytes is None else str(following.method)

        eventually(lambda: shown() == "LOGICAL", "the lag", 0.2)
        with pytest.raises(ApiError, match="for the method PHYSICAL"):
            client.promote_service(service.service_id, drain=True)
        source.run("UPDATE orders SET note = 'the last change' WHERE id = 1")
        client.promote_service(service.service_id)
        promoted = client.wait_ready(service.service_id, timeout_seconds=120)
        assert promoted.metadata.following is None
        assert rows_of(service, password) == rows_of_source(source)
        with connect(service.endpoint.port, password) as inside:
            assert inside.execute("INSERT INTO orders (note) VALUES ('here') RETURNING id").fetchone() == (502,)
        with source.connect() as outside:
            assert outside.execute(_SLOTS).fetchall() == []


def test_a_fork_is_independent_and_a_deleted_follower_leaves_nothing_in_the_source(
    client: Client, source: Source
) -> None:
    with following(client, source) as (service, password):
        accepted = client.fork_service(service.service_id, ForkStrategy.NOW)
        fork = client.wait_ready(accepted.service_id, timeout_seconds=120)
        source.run("INSERT INTO orders (note) VALUES ('after the fork')")
        eventually(lambda: rows_of(service, password) == rows_of_source(source), "the change", 0.2)
        assert len(rows_of(fork, str(accepted.initial_password))) == 500
        target = datetime.now(UTC).isoformat()
        past = client.fork_service(service.service_id, ForkStrategy.PITR, target_time=target)
        ready = client.wait_ready(past.service_id, timeout_seconds=120)
        assert len(rows_of(ready, str(past.initial_password))) == 501
        client.delete_service(past.service_id)
        assert fork.metadata.following is None
        client.delete_service(fork.service_id)
        client.wait_deleted(fork.service_id, timeout_seconds=120)
        with source.connect() as outside:
            assert outside.execute(_SLOTS).fetchall() == [(f"ramet_{service.service_id}",)]
    with source.connect() as outside:
        assert outside.execute(_SLOTS).fetchall() == []
        assert outside.execute("SELECT pubname FROM pg_publication").fetchall() == []


def test_poolers_replicas_and_wal_level_of_a_service_that_follows_stay_at_its_promotion(client: Client) -> None:
    with shop(max(MAJORS)) as source, following(client, source) as (service, password):
        client.set_wal_level(service.service_id, WalLevel.LOGICAL)
        client.wait_ready(service.service_id, timeout_seconds=120)
        client.enable_pooler(service.service_id)
        reports = client.create_replica_set(service.service_id, "reports", cpu_millis="500", memory_gbs="2")
        eventually(lambda: client.list_replica_sets(service.service_id)[0].status == "active", "the replica", 0.2)
        source.run("INSERT INTO orders (note) VALUES ('for all')")

        def all_have_it() -> bool:
            pooler = client.get_service(service.service_id).connection_pooler
            ports = [service.endpoint.port, reports.endpoint.port, 0 if pooler is None else pooler.endpoint.port]
            return all(_count(port, password) == 501 for port in ports)

        eventually(all_have_it, "the row in the service, its replica and its pooler", 0.5)
        client.promote_service(service.service_id)
        client.wait_ready(service.service_id, timeout_seconds=120)
        with connect(service.endpoint.port, password) as inside:
            inside.execute("INSERT INTO orders (note) VALUES ('here')")
        eventually(lambda: _count(reports.endpoint.port, password) == 502, "the row in the replica", 0.2)


def _count(port: int, password: str) -> int:
    try:
        with connect(port, password) as inside:
            return int(str(inside.execute("SELECT count(*) FROM orders").fetchall()[0][0]))
    except psycopg.OperationalError:  # it is not there yet
        return -1


def test_tables_without_a_primary_key_are_reported_before_anything_is_made(client: Client, source: Source) -> None:
    source.run("CREATE TABLE keyless (n int)")
    report = client.plan_follow("shop", url_of(source), PASSWORD, method=FollowMethod.LOGICAL)
    assert ["public.keyless" in one.message for one in report.findings if one.effect == "REFUSED"] == [True]
    with pytest.raises(ApiError, match="no replica identity"):
        client.follow_database("shop", url_of(source), PASSWORD, method=FollowMethod.LOGICAL)
    with source.connect() as outside, pytest.raises(psycopg.errors.UndefinedObject):
        outside.execute(f"DROP PUBLICATION ramet_{'x' * 10}")
    with source.connect() as outside:
        assert outside.execute("SELECT pubname FROM pg_publication").fetchall() == []
