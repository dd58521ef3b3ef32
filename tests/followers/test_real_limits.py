"""A standby of a source that has more of something than services usually allow."""

from datetime import UTC, datetime

import psycopg

from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.client import Client, ForkStrategy
from tests.followers.conftest import restart
from tests.followers.test_real_followers import append, ask, follow, fork, shows
from tests.sources import Source

_SECONDS = 300.0
_COUNT = "SELECT count(*) FROM ledger"


_PREPARED = "SELECT count(*) FROM pg_prepared_xacts"


def advance_origins(source: Source, first: int, last: int) -> None:
    """Make replication origins, and let each have replayed something."""
    source.run(f"SELECT pg_replication_origin_create('o' || n) FROM generate_series({first}, {last}) n")
    source.run(f"SELECT pg_replication_origin_advance('o' || n, '0/1') FROM generate_series({first}, {last}) n")


def prepare(source: Source, count: int) -> None:
    with source.connect() as connection:
        connection.execute("SET SESSION AUTHORIZATION app")
        for number in range(count):
            connection.execute(f"BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'p{number}'".encode())


def test_a_source_with_many_replication_origins_is_followed_promoted_and_forked(client: Client, source: Source) -> None:
    of_origins = "max_active_replication_origins" if source.installation.major >= 18 else "max_replication_slots"
    restart(source, **{of_origins: "20"})
    advance_origins(source, 1, 11)
    source.run("CHECKPOINT")
    made = follow(client, source)
    advance_origins(source, 12, 13)
    append(source, 101)
    eventually(lambda: shows(made.endpoint.port, _COUNT) == [(101,)], "the row")
    client.promote_service(made.service_id)
    client.wait_ready(made.service_id, timeout_seconds=_SECONDS)
    child = fork(client, made.service_id, ForkStrategy.NOW)
    assert ask(child, _COUNT) == [(101,)]


def test_a_service_with_the_prepared_transactions_of_its_source_starts_again_and_is_forked(
    client: Client, source: Source
) -> None:
    restart(source, max_prepared_transactions="150")
    prepare(source, 101)
    made = follow(client, source)
    assert ask(fork(client, made.service_id, ForkStrategy.NOW), _COUNT) == [(100,)]
    client.promote_service(made.service_id)
    client.wait_ready(made.service_id, timeout_seconds=_SECONDS)
    client.stop_service(made.service_id)
    client.wait_paused(made.service_id, timeout_seconds=_SECONDS)
    client.start_service(made.service_id)
    client.wait_ready(made.service_id, timeout_seconds=_SECONDS)
    with psycopg.connect(
        host="localhost", port=made.endpoint.port, user="app", password="app", dbname="tsdb", connect_timeout=30
    ) as connection:
        assert connection.execute(_PREPARED).fetchall() == [(101,)]
    assert ask(fork(client, made.service_id, ForkStrategy.NOW), _PREPARED) == [(0,)]


def has(standby: Service, rows: int) -> bool:
    """Tell whether a standby has so many rows; it is restarted for larger limits of its source."""
    try:
        return shows(standby.endpoint.port, _COUNT) == [(rows,)]
    except psycopg.OperationalError:
        return False


def is_well(client: Client, standby: Service) -> bool:
    following = client.get_service(standby.service_id).metadata.following
    return following is not None and following.problem is None


def test_a_time_after_the_source_had_more_prepared_transactions_can_be_forked(client: Client, source: Source) -> None:
    """The last base backup of the standby is from before its source allowed them."""
    made = follow(client, source)
    restart(source, max_prepared_transactions="150")
    prepare(source, 101)
    append(source, 101)
    eventually(lambda: has(made, 101), "the row")
    target = datetime.now(UTC)
    append(source, 102)
    eventually(lambda: has(made, 102), "the next row")
    eventually(lambda: is_well(client, made), "the standby without a problem")
    past = fork(client, made.service_id, ForkStrategy.PITR, target_time=target.isoformat())
    assert ask(past, _COUNT) == [(101,)]
