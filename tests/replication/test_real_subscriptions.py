"""A service receives the changes of a database elsewhere by a subscription that the platform owns."""

from dataclasses import replace

import psycopg
import pytest

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.subscriptions import SOURCE_UNREACHABLE
from ramet.backends.interface.values import Server
from ramet.backends.interface.values import Source as ForkSource
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.server.read_only_storage import NOT_RECEIVED
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import value
from ramet.backends.local.subscriptions.publisher import Publisher
from ramet.backends.local.subscriptions.subscriptions import directory_of
from ramet.errors import Unavailable
from ramet.model.passwords import Secret, new_password, scram_verifier
from ramet.model.upstream import own_slot
from tests.backends.local.forks import paths_of, recover, run
from tests.backends.local.hosts import connect, new_server
from tests.replication.subscribed import CHANGES, SLOTS, Follower, backend, follower, rows_of, source
from tests.sources import MAJORS, OWNER, PASSWORD

__all__ = ["backend", "follower", "source"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("source", MAJORS, indirect=True)
def test_changes_arrive_and_at_the_end_sequences_too_and_nothing_stays_in_the_source(follower: Follower) -> None:
    follower.source.run(CHANGES)
    eventually(follower.has_all, "the changes")
    state = follower.backend.subscriptions.observe(follower.server)
    assert (state.tables, state.copied_tables, state.problem) == (4, 4, None)
    assert state.lag_bytes is not None
    follower.source.run(CHANGES + "CREATE TABLE made_later (id int PRIMARY KEY)")
    problem = follower.backend.subscriptions.observe(follower.server).problem
    assert "not replicated, such as tables created after the service: public.made_later." in str(problem)
    facts = follower.finish()
    follower.source.run("DROP TABLE made_later")
    assert (facts["sequences"], facts["not_replicated"]) == (4, ["public.made_later"])
    assert follower.has_all()
    with follower.session() as inside, follower.source.connect() as outside:
        last = "SELECT sequencename, last_value FROM pg_sequences ORDER BY 1"
        assert inside.execute(last).fetchall() == outside.execute(last).fetchall()
        assert inside.execute("SELECT nextval('restarted')").fetchone() == (700,)
        inside.execute("INSERT INTO customers (name) VALUES ('the first one here')")
        assert inside.execute("SELECT count(subname) FROM pg_subscription").fetchone() == (0,)
        assert outside.execute(SLOTS).fetchall() == []
    kept = directory_of(paths_of(follower.backend, follower.server))
    assert [file.name for file in kept.iterdir()] == ["ended.json"]  # and no password
    assert follower.backend.subscriptions.finish(follower.server, "one", 0.5).facts == facts
    assert follower.backend.subscriptions.discard(follower.server.service_id) is None
    assert not kept.exists()
    assert follower.backend.subscriptions.finish(follower.server, "one", 0.5).facts == {}


def test_a_partition_that_is_made_later_is_named_also_when_it_was_made_here(follower: Follower) -> None:
    """Its changes stop the subscription until it exists here, and are ignored from then on."""
    subscriptions, server = follower.backend.subscriptions, follower.server
    partition = "CREATE TABLE events_of_2027 PARTITION OF events FOR VALUES FROM ('2027-01-01') TO ('2028-01-01')"
    follower.source.run(f"{partition}; INSERT INTO events VALUES ('2027-02-02', 'lost')")
    eventually(lambda: subscriptions.observe(server).problem is not None, "a problem")
    with follower.session() as inside:
        inside.execute(partition.encode())
    eventually(lambda: "events_of_2027" in str(subscriptions.observe(server).problem), "the partition is named")

    assert follower.finish()["not_replicated"] == ["public.events_of_2027"]
    follower.source.run("DROP TABLE events_of_2027")


def test_a_source_that_goes_away_after_the_end_keeps_slot_and_publication_with_a_warning(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it commits when it serves again is not awaited, and not reported as awaited."""

    def fail(_publisher: Publisher) -> None:
        raise psycopg.OperationalError("it is away")

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "remove", fail)
        facts = follower.finish()
    left = str(facts["left_in_source"])
    assert "keep WAL there: it is away." in left
    with follower.source.connect() as outside:
        outside.execute(left.partition("There: ")[2].removesuffix(".").encode())
    follower.source.run(CHANGES)
    assert follower.finish("two") == facts
    assert [file.name for file in directory_of(paths_of(follower.backend, follower.server)).iterdir()] == ["ended.json"]


def test_a_promotion_that_is_interrupted_after_the_end_reports_the_same_and_sets_no_sequence_back(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower.source.run("CREATE TABLE made_later (id int PRIMARY KEY)")

    def crash(_publisher: Publisher) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "remove", crash)
        with pytest.raises(KeyboardInterrupt):
            follower.finish()
    with follower.source.connect() as outside:
        (end,) = outside.execute("SELECT pg_current_wal_flush_lsn()::text").fetchall()[0]
    with follower.session() as inside:
        used = int(str(inside.execute("SELECT nextval('restarted')").fetchall()[0][0]))
    follower.source.run(f"DROP TABLE made_later; {CHANGES}")
    facts = follower.finish("two")
    assert facts == {"end_lsn": facts["end_lsn"], "sequences": 4, "not_replicated": ["public.made_later"]}
    with follower.source.connect() as outside:
        awaited = "SELECT %s::text::pg_lsn <= %s::text::pg_lsn"
        assert outside.execute(awaited, (facts["end_lsn"], end)).fetchone() == (True,)
    with follower.session() as inside:
        assert inside.execute("SELECT nextval('restarted')").fetchone() == (used + 1,)


def test_nothing_arrives_while_the_storage_is_nearly_full(follower: Follower) -> None:
    paths = paths_of(follower.backend, follower.server)
    workers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^logical replication.* worker$'"

    def has_worker() -> bool:
        with connections.connect(paths) as connection:
            return bool(value(connection, workers))

    eventually(has_worker, "the worker")
    for _ in range(2):
        follower.backend.servers.set_read_only(follower.server, read_only=True)
        eventually(lambda: not has_worker(), "the end of the worker")
    with connections.connect(paths) as connection:
        assert value(connection, "SHOW wal_retrieve_retry_interval") == "1d"
    follower.source.run(CHANGES)
    assert not has_worker()
    assert not follower.has_all()
    subscriptions = follower.backend.subscriptions
    assert subscriptions.observe(follower.server).problem == NOT_RECEIVED
    assert subscriptions.finish(follower.server, "one", 0.0).progress == NOT_RECEIVED
    follower.backend.servers.set_read_only(follower.server, read_only=False)
    eventually(follower.has_all, "the changes")


def test_tenants_see_no_password_and_own_nothing_of_it(follower: Follower) -> None:
    paths, name = paths_of(follower.backend, follower.server), own_slot(follower.server.service_id)
    hidden = "SELECT subconninfo FROM pg_subscription"
    with follower.session() as inside:
        for statement in (f"DROP SUBSCRIPTION {name}", f"ALTER SUBSCRIPTION {name} DISABLE", hidden):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                inside.execute(statement.encode())
    with connections.connect(paths) as platform:
        [(shown, owner)] = platform.execute("SELECT subconninfo, subowner::regrole FROM pg_subscription").fetchall()
    found = "passfile=" in shown, PASSWORD.reveal() in shown, "password=" in shown, owner
    assert found == (True, False, False, "ramet")
    kept = directory_of(paths)
    assert {path.name: path.stat().st_mode & 0o777 for path in kept.iterdir()} == {
        "passfile": 0o600,
        "source.json": 0o600,
    }
    assert PASSWORD.reveal() not in (kept / "source.json").read_text()
    assert not kept.is_relative_to(paths.data)


def test_triggers_of_tenants_run_as_the_owner_of_the_table_and_not_as_the_platform(follower: Follower) -> None:
    with follower.session() as inside:
        inside.execute("CREATE TABLE seen (who name, is_superuser bool)")
        inside.execute(
            "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.seen"
            " SELECT rolname, rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user; RETURN NEW; END$$"
        )
        inside.execute("CREATE TRIGGER look AFTER INSERT ON customers FOR EACH ROW EXECUTE FUNCTION look()")
        inside.execute("ALTER TABLE customers ENABLE ALWAYS TRIGGER look")
    follower.source.run("INSERT INTO customers (name) VALUES ('watched')")
    eventually(follower.has_all, "the row")
    with follower.session() as inside:
        assert inside.execute("SELECT DISTINCT who, is_superuser FROM seen").fetchall() == [("tsdbadmin", False)]


def test_forks_drop_the_subscription_and_the_follower_keeps_it(follower: Follower) -> None:
    backend, password, name = follower.backend, new_password(), own_slot(follower.server.service_id)
    forks = [
        _secured_fork(follower, password, neutralize=neutralize, own_subscription=name) for neutralize in (True, False)
    ]
    for fork in forks:
        backend.servers.open(fork)
        with connections.connect(paths_of(backend, fork)) as platform:
            assert platform.execute("SELECT count(*) FROM pg_subscription").fetchone() == (0,)
            assert platform.execute("SELECT count(*) FROM pg_replication_origin").fetchone() == (0,)
    follower.source.run(CHANGES)
    eventually(follower.has_all, "the changes")
    for fork in forks:
        with connect(fork, password, sslmode="prefer") as inside, follower.source.connect() as outside:
            assert rows_of(inside) != rows_of(outside)
            assert outside.execute(SLOTS).fetchall() == [(name, True)]
        backend.servers.destroy(fork.service_id)


def _secured_fork(follower: Follower, password: Secret, *, neutralize: bool, own_subscription: str) -> Server:
    backend, fork = follower.backend, new_server(follower.backend.instances)
    fork = replace(fork, pg_major=follower.server.pg_major, verifier=scram_verifier(password))
    captured = backend.restore.capture(fork, ForkSource(follower.server))
    assert captured is not None
    recover(backend, fork, captured)
    run(backend, fork, first=True)
    found = backend.servers.secure(fork, is_new=False, neutralize=neutralize)
    assert (found["subscriptions"], found["own_subscriptions"]) == ([], [own_subscription])
    return fork


def test_the_follower_continues_after_a_restart_and_after_the_renewal_of_a_release(follower: Follower) -> None:
    follower.backend.servers.stop(follower.server)
    follower.source.run(CHANGES)
    follower.restart()
    assert follower.backend.servers.refresh(follower.server)
    eventually(follower.has_all, "the changes")


def test_a_promotion_that_cannot_end_says_the_same_whatever_the_source_writes(follower: Follower) -> None:
    """Otherwise it would count as progress, and never be given up."""
    with follower.session() as inside:
        inside.execute("INSERT INTO customers (id, name) VALUES (90001, 'here')")
    follower.source.run("INSERT INTO customers (id, name) VALUES (90001, 'there')")

    def said() -> str:
        follower.source.run("INSERT INTO full_identity VALUES (77)")
        return follower.backend.subscriptions.finish(follower.server, "given up", 0.1).progress

    eventually(lambda: "The subscription has failed" in said(), "the failure")
    assert said() == said()
    with follower.session() as inside:
        inside.execute("DELETE FROM customers WHERE id = 90001")
    follower.source.run("INSERT INTO full_identity SELECT 1000 + n FROM generate_series(1, 20000) AS n")
    assert follower.finish("asked for again")["not_replicated"] == []
    assert follower.has_all()


def test_without_the_subscription_nothing_is_reported_as_awaited(follower: Follower) -> None:
    """As when an earlier release has dropped it."""
    follower.backend.subscriptions.detach(follower.server)
    assert follower.finish() == {}


def test_a_source_that_is_away_when_it_is_subscribed_to_is_unreachable(backend: LocalBackend) -> None:
    server, subscriptions = new_server(backend.instances, pg_major=max(MAJORS)), backend.subscriptions
    away, sealed = SourceAddress("localhost", free_port(), "shop", OWNER, "disable"), backend.sources.seal(PASSWORD)
    backend.servers.initialize(server)
    with pytest.raises(Unavailable, match="cannot be reached"):
        subscriptions.publish(server, away, sealed)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    with pytest.raises(Unavailable, match=f"The source {away} cannot be reached") as failed:
        subscriptions.subscribe(server)
    assert failed.value.code == SOURCE_UNREACHABLE
    assert subscriptions.observe(server).tables == 0
    assert subscriptions.discard(server.service_id) is not None
    backend.servers.destroy(server.service_id)
