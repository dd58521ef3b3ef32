"""What a subscription needs from its source, leaves in it, and says when the source or the slot is gone."""

import shutil
from dataclasses import replace

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.subscriptions import publisher
from ramet.backends.local.subscriptions.publisher import Publisher
from ramet.backends.local.subscriptions.subscriptions import directory_of
from ramet.errors import Failed, Invalid
from ramet.model.passwords import Secret
from ramet.model.upstream import own_slot
from tests.backends.local.forks import paths_of
from tests.backends.local.hosts import new_server
from tests.followers.conftest import restart
from tests.replication.subscribed import (
    SLOTS,
    Follower,
    address_of,
    backend,
    follower,
    source,
)
from tests.sources import MAJORS, PASSWORD, Source

__all__ = ["backend", "follower", "source"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
_PAGE_HEADER_BYTES = 40  # between the end of a record and the begin of the next one, on another page


def test_a_promotion_awaits_commits_that_the_source_has_not_flushed_yet(source: Source) -> None:
    with source.connect() as writer, source.connect() as outside:
        writer.execute("SET synchronous_commit = off")
        writer.execute("INSERT INTO full_identity VALUES (4711)")
        writer.execute("DELETE FROM full_identity WHERE n = 4711")
        inserted = writer.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()[0][0]
        position = Publisher(outside, "of_nobody").position()
        end = "SELECT pg_current_wal_flush_lsn() >= %s::text::pg_lsn, %s::text::pg_lsn - %s::text::pg_lsn"
        ((is_flushed, missing),) = outside.execute(end, (position, inserted, position)).fetchall()
    assert is_flushed
    assert int(str(missing)) <= _PAGE_HEADER_BYTES


def test_a_promotion_awaits_the_end_of_prepared_transactions(follower: Follower) -> None:
    restart(follower.source, max_prepared_transactions="5")
    follower.source.run("BEGIN; INSERT INTO full_identity VALUES (4711); PREPARE TRANSACTION 'of the bank'")
    found = follower.backend.subscriptions.finish(follower.server, "one", 0.5)
    assert found.facts is None
    assert "have to be committed or rolled back there: of the bank" in found.progress
    follower.source.run("COMMIT PREPARED 'of the bank'")
    follower.finish()
    assert follower.has_all()


def test_a_slot_that_is_gone_has_its_reason(follower: Follower) -> None:
    name = own_slot(follower.server.service_id)
    follower.backend.servers.stop(follower.server)
    with follower.source.connect() as outside:
        eventually(lambda: outside.execute(SLOTS).fetchall() == [(name, False)])
        outside.execute("SELECT pg_drop_replication_slot(%s)", (name,))
    follower.restart()
    problem = follower.backend.subscriptions.observe(follower.server).problem
    assert problem is not None
    assert "has removed the WAL of the slot" in problem
    with pytest.raises(Failed, match="A fork of the service is independent") as failed:
        follower.finish()
    assert failed.value.code == "SLOT_LOST"


def test_what_stays_in_a_source_that_is_away_is_named_with_its_remedy(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_publisher: Publisher) -> None:
        raise psycopg.OperationalError("it is away")

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "remove", fail)
        left, again = (follower.backend.subscriptions.discard(follower.server.service_id) or "" for _ in range(2))
    assert left == again
    assert "keep WAL there: it is away." in left
    with follower.source.connect() as outside:
        outside.execute(left.partition("There: ")[2].removesuffix(".").encode())
    assert follower.backend.subscriptions.discard(follower.server.service_id) is None


def test_a_slot_of_a_source_that_knows_no_state_of_its_wal_is_not_lost(follower: Follower) -> None:
    with follower.source.connect() as outside:
        outside.execute(
            "CREATE TEMPORARY VIEW pg_replication_slots AS"
            " SELECT slot_name, confirmed_flush_lsn FROM pg_catalog.pg_replication_slots"
        )
        lag_bytes, status = Publisher(outside, own_slot(follower.server.service_id)).lag()
    assert lag_bytes is not None
    assert status == "reserved"


def test_a_service_that_was_recovered_elsewhere_has_no_subscription_and_says_what_to_do(follower: Follower) -> None:
    backend, server, name = follower.backend, follower.server, own_slot(follower.server.service_id)
    shutil.rmtree(directory_of(paths_of(backend, server)))  # as on another host
    for _ in range(2):
        backend.subscriptions.detach(server)
    problem = str(backend.subscriptions.observe(server).problem)
    assert "Promote the service to keep what it has" in problem
    assert backend.subscriptions.finish(server, "one", 0.5).facts == {}
    with follower.session() as inside:
        assert inside.execute("SELECT count(subname) FROM pg_subscription").fetchone() == (0,)
    _, _, remedy = problem.partition("In the source: ")
    with follower.source.connect() as outside:
        eventually(lambda: outside.execute(SLOTS).fetchall() == [(name, False)])
        outside.execute(remedy.removesuffix(".").encode())


def test_a_transaction_of_the_source_that_does_not_end_is_named(
    backend: LocalBackend, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_SETTINGS", "-c search_path=pg_catalog -c statement_timeout=500ms")
    server, sealed = new_server(backend.instances, pg_major=max(MAJORS)), backend.sources.seal(PASSWORD)
    with source.connect() as connection:
        with connection.transaction():
            connection.execute("SELECT pg_current_xact_id()")
            blocked = backend.subscriptions.publish(server, address_of(source), sealed)
        assert "Transactions that began before have to end" in str(blocked)
    monkeypatch.undo()
    assert backend.subscriptions.publish(server, address_of(source), sealed) is None
    backend.subscriptions.discard(server.service_id)
    backend.servers.destroy(server.service_id)


@pytest.mark.parametrize("source", MAJORS, indirect=True)
def test_what_speaks_against_a_source_is_read_before_anything_is_made(backend: LocalBackend, source: Source) -> None:
    source.run("CREATE TABLE keyless (n int)")
    source.run("CREATE TABLE deferred (n int PRIMARY KEY DEFERRABLE)")
    source.run("CREATE UNLOGGED TABLE cache (n int)")
    source.run("CREATE MATERIALIZED VIEW totals AS SELECT count(*) FROM customers")
    source.run(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD.reveal().replace(chr(39), chr(39) * 2)}'")
    address = address_of(source)
    facts = backend.subscriptions.examine(address, PASSWORD)
    assert (facts.major, facts.wal_level, facts.is_standby) == (source.installation.major, "logical", False)
    assert (facts.may_replicate, facts.may_publish, facts.not_owned) == (True, True, ())
    assert (facts.without_identity, facts.unlogged) == (("public.deferred", "public.keyless"), ("public.cache",))
    assert facts.materialized_views == ("public.totals",)
    facts = backend.subscriptions.examine(replace(address, user="reader"), PASSWORD)
    assert (facts.may_replicate, facts.may_publish) == (False, False)
    assert "public.customers" in facts.not_owned
    assert "public.cache" not in facts.not_owned
    with pytest.raises(Invalid, match="password authentication failed"):
        backend.subscriptions.examine(address, Secret("another"))
    source.run("DROP MATERIALIZED VIEW totals")
    source.run("DROP TABLE keyless, deferred, cache")
    source.run("DROP ROLE reader")


def test_before_16_functions_of_tenants_would_run_as_the_platform(backend: LocalBackend, source: Source) -> None:
    server = new_server(backend.instances, pg_major=15)
    with pytest.raises(Failed, match="cannot follow a source by a subscription"):
        backend.subscriptions.publish(server, address_of(source), backend.sources.seal(PASSWORD))
    with source.connect() as outside:
        assert outside.execute(SLOTS).fetchall() == []
