"""A standby of a source that has more of something than services usually allow."""

from harness.waiting import eventually
from ramet.client import Client, ForkStrategy
from tests.followers.conftest import restart
from tests.followers.test_real_followers import append, ask, follow, fork, shows
from tests.sources import Source

_SECONDS = 300.0
_COUNT = "SELECT count(*) FROM ledger"


def advance_origins(source: Source, first: int, last: int) -> None:
    """Make replication origins, and let each have replayed something."""
    source.run(f"SELECT pg_replication_origin_create('o' || n) FROM generate_series({first}, {last}) n")
    source.run(f"SELECT pg_replication_origin_advance('o' || n, '0/1') FROM generate_series({first}, {last}) n")


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
