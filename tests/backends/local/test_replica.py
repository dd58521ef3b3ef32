"""Real replicas: they follow their primary, read only, through pauses and resizes, and share nothing with it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import psycopg
import pytest

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Primary, Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host import files
from ramet.backends.local.restore import base_backup
from ramet.backends.local.sql import connections
from ramet.backends.local.volumes.pool import Pool
from ramet.backends.local.wal.locate import WalSource
from ramet.errors import Exhausted
from ramet.model.passwords import Secret, new_password
from ramet.model.size import Size
from tests.backends.local.forks import destroy_all, paths_of, run, services_of, writing
from tests.backends.local.hosts import connect, new_server

SMALL = Size(500, 1)
READ_ONLY = "-c tsdb_admin.read_only_connection=true -c default_transaction_read_only=on"


@dataclass(frozen=True)
class Followed:
    """A serving service with a ledger, and the password of its admin."""

    backend: LocalBackend
    server: Server
    password: Secret

    def replica(self, **changes: object) -> Server:
        primary = Primary(self.server.service_id, self.server.port)
        usual = new_server(self.backend.instances, size=SMALL, primary=primary)
        return replace(usual, **changes)  # type: ignore[arg-type]

    def follow(self, **changes: object) -> Server:
        """Return a replica that serves."""
        replica = self.replica(**changes)
        assert self.backend.replicas.create(replica)
        self.serve(replica)
        return replica

    def serve(self, server: Server) -> None:
        run(self.backend, server)
        self.backend.servers.open(server)

    def numbers(self, server: Server, port: int | None = None) -> list[int]:
        with connect(server, self.password, port=str(port or server.port)) as client:
            return [int(str(row[0])) for row in client.execute("SELECT n FROM ledger ORDER BY n").fetchall()]


@pytest.fixture
def followed(primary: Followed) -> Iterator[Followed]:
    """The service, and no replica of it at the end."""
    yield primary
    for service_id in services_of(primary.backend):
        if service_id != primary.server.service_id:
            primary.backend.servers.destroy(service_id)


@pytest.fixture(scope="module")
def primary(usual_backend: LocalBackend) -> Iterator[Followed]:
    password = new_password()
    server = new_server(usual_backend.instances, password)
    usual_backend.servers.initialize(server)
    run(usual_backend, server)
    usual_backend.servers.secure(server, is_new=True, neutralize=False)
    with connections.connect(paths_of(usual_backend, server), "tsdb") as connection:
        connection.execute("CREATE TABLE public.ledger (n int PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())")
        connection.execute("GRANT ALL ON public.ledger TO tsdbadmin")
    usual_backend.servers.open(server)
    yield Followed(usual_backend, server, password)
    destroy_all(usual_backend)


def insert(followed: Followed, number: int) -> None:
    with connect(followed.server, followed.password) as client:
        client.execute("INSERT INTO ledger (n) VALUES (%s) ON CONFLICT DO NOTHING", (number,))


def test_a_replica_refuses_writes(followed: Followed) -> None:
    replica = followed.follow()
    with connect(replica, followed.password) as client:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            client.execute("INSERT INTO ledger (n) VALUES (99)")
        client.execute("SET default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            client.execute("INSERT INTO ledger (n) VALUES (99)")


def test_roles_and_passwords_are_replicated(followed: Followed) -> None:
    replica = followed.follow()
    with connect(followed.server, followed.password) as admin:
        admin.execute("CREATE ROLE reader LOGIN PASSWORD 'first'")
    eventually(lambda: can_log_in(replica, "reader", "first"))
    with connect(followed.server, followed.password) as admin:
        admin.execute("ALTER ROLE reader PASSWORD 'second'")
    eventually(lambda: can_log_in(replica, "reader", "second"))
    assert not can_log_in(replica, "reader", "first")


def can_log_in(server: Server, user: str, password: str, port: int | None = None) -> bool:
    try:
        connect(server, password, user=user, port=str(port or server.port)).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_replica_is_made_while_its_primary_is_written(followed: Followed) -> None:
    backend, server = followed.backend, followed.server
    with connections.connect(paths_of(backend, server)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.ledger (n int PRIMARY KEY, at timestamptz)")
    with writing(backend, server, 1000) as writer:
        replica = followed.follow()
    expected = [number for number, _ in writer.acknowledged]

    def caught_up() -> bool:
        with connections.connect(paths_of(backend, replica)) as connection:
            rows = connection.execute("SELECT n FROM public.ledger WHERE n >= 1000 ORDER BY n").fetchall()
        return [row[0] for row in rows] == expected

    eventually(caught_up)


def test_a_replica_follows_again_after_both_were_stopped(followed: Followed) -> None:
    backend = followed.backend
    replica = followed.follow()
    backend.servers.stop(replica)
    insert(followed, 10)
    backend.servers.stop(followed.server)
    followed.serve(followed.server)
    insert(followed, 11)
    followed.serve(replica)
    eventually(lambda: {10, 11} <= set(followed.numbers(replica)))


def test_a_replica_fetches_missed_wal_from_the_archive(followed: Followed) -> None:
    backend = followed.backend
    replica = followed.follow()
    backend.servers.stop(replica)
    with connections.connect(paths_of(backend, followed.server)) as connection:
        for number in range(20, 24):
            insert(followed, number)
            connection.execute("SELECT pg_switch_wal()")
        eventually(lambda: all_archived(connection))
        connection.execute("CHECKPOINT")
        connection.execute("CHECKPOINT")
    followed.serve(replica)
    eventually(lambda: {20, 23} <= set(followed.numbers(replica)))


def all_archived(connection: connections.Connection) -> bool:
    row = connection.execute("SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'").fetchone()
    return row == (0,)


def test_a_replica_follows_a_primary_that_was_resized(followed: Followed) -> None:
    backend = followed.backend
    replica = followed.follow()
    backend.servers.stop(followed.server)
    larger = replace(followed.server, size=Size(1000, 8))
    followed.serve(larger)
    insert(followed, 30)
    eventually(lambda: 30 in followed.numbers(replica))
    backend.servers.stop(followed.server)
    followed.serve(followed.server)


def test_a_replica_of_an_earlier_release_follows_after_an_upgrade(followed: Followed) -> None:
    replica, backend = followed.follow(), followed.backend
    paths = paths_of(backend, replica)
    written = paths.config_file.read_text()
    assert "user=ramet " in written
    files.write(paths.config_file, written.replace("user=ramet ", "user=ramet_replica "))
    with connections.connect(paths_of(backend, followed.server)) as platform:
        platform.execute("CREATE ROLE ramet_replica LOGIN REPLICATION")
    backend.servers.refresh(followed.server)
    backend.servers.refresh(replica)
    insert(followed, 12)
    eventually(lambda: backend.servers.inspect(replica).follows and 12 in followed.numbers(replica))
    with connections.connect(paths) as standby:
        sender = standby.execute("SELECT conninfo FROM pg_stat_wal_receiver").fetchone()
    assert sender is not None
    assert "user=ramet " in str(sender[0])
    with connections.connect(paths_of(backend, followed.server)) as platform:
        assert platform.execute("SELECT 1 FROM pg_roles WHERE rolname = 'ramet_replica'").fetchone() is None


def test_creating_a_replica_that_exists_leaves_it_following(followed: Followed) -> None:
    insert(followed, 40)
    replica = followed.follow()
    assert followed.backend.replicas.create(replica)
    eventually(lambda: 40 in followed.numbers(replica))


def test_a_copy_that_would_leave_others_too_little_space_is_not_begun(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, replica = followed.backend, followed.replica()
    copied = base_backup.copied_bytes(backend.pool.driver, paths_of(backend, followed.server).data)
    monkeypatch.setattr(Pool, "free_bytes", lambda _pool: copied + 64 * 2**20)
    for _ in range(2):
        with pytest.raises(Exhausted, match="MiB left"):
            backend.replicas.create(replica)
    paths = paths_of(backend, replica)
    assert not paths.data.exists()
    assert not paths.unfinished.exists()


def test_a_copy_that_fails_halfway_leaves_nothing_and_can_be_made_later(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, replica = followed.backend, followed.replica()

    def full(*_: object) -> None:
        assert paths_of(backend, replica).unfinished.exists()
        raise Exhausted("NOT_ENOUGH_DISK", "The storage has 0 MiB left")

    with monkeypatch.context() as patched:
        patched.setattr(WalSource, "place_all", full)
        with pytest.raises(Exhausted):
            backend.replicas.create(replica)
    assert not paths_of(backend, replica).unfinished.exists()
    assert backend.replicas.create(replica)


@pytest.mark.parametrize("replication", ["true", "database"])
def test_no_client_can_use_streaming_replication(followed: Followed, replication: str) -> None:
    followed.follow()
    connect(followed.server, followed.password).close()
    with pytest.raises(psycopg.OperationalError, match=r"WAL sender|walsender|rejects replication"):
        connect(followed.server, followed.password, replication=replication)


def test_whether_a_replica_follows_and_its_lag_are_measured(followed: Followed) -> None:
    replica, backend = followed.follow(), followed.backend
    eventually(lambda: backend.servers.inspect(replica).follows)

    def lag() -> float | None:
        measured = backend.host.measure(replica)
        return None if measured is None else measured.get("ramet_replay_lag_seconds")

    insert(followed, 60)
    eventually(lambda: lag() == 0)
    assert "ramet_replay_lag_seconds" not in (backend.host.measure(followed.server) or {})
    stranger = followed.replica(service_id=replica.service_id, port=replica.port, primary=Primary("absent1234", 1))
    backend.servers.stop(replica)
    backend.servers.start(stranger, clients=True)
    eventually(lambda: backend.servers.await_ready(stranger, 0.5).ready)
    eventually(lambda: not backend.servers.inspect(stranger).follows)
    assert backend.servers.inspect(stranger).serving
    eventually(lambda: (lag() or 0) > 0)


def test_a_pooler_of_a_replica_refuses_writes(followed: Followed) -> None:
    replica, port = followed.follow(), free_port()
    followed.backend.poolers.start([replica], port)
    insert(followed, 70)
    eventually(lambda: 70 in followed.numbers(replica, port))
    for options in ("", READ_ONLY):
        with (
            connect(replica, followed.password, port=str(port), options=options) as client,
            pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
        ):
            client.execute("INSERT INTO ledger (n) VALUES (71)")


def test_a_balancer_spreads_clients_over_its_nodes_and_skips_one_that_is_stopped(followed: Followed) -> None:
    backend, port = followed.backend, free_port()
    nodes = [followed.follow(), followed.follow()]
    backend.replicas.start_balancer(nodes, port)
    assert backend.replicas.balancer_serves(nodes[0].service_id)
    clients = [connect(nodes[0], followed.password, port=str(port), options=READ_ONLY) for _ in range(6)]
    try:
        seen = {client.execute("SHOW cluster_name").fetchone() for client in clients}
        assert seen == {(node.service_id,) for node in nodes}
    finally:
        for client in clients:
            client.close()
    backend.servers.stop(nodes[1])
    eventually(lambda: can_log_in(nodes[0], "tsdbadmin", followed.password.reveal(), port))
    backend.servers.destroy(nodes[0].service_id)
    assert not backend.replicas.balancer_serves(nodes[0].service_id)


def test_the_configuration_of_a_replica_holds_no_password(followed: Followed) -> None:
    replica = followed.follow()
    paths = paths_of(followed.backend, replica)
    text = "".join(path.read_text() for path in paths.conf.glob("*.conf"))
    assert "primary_conninfo" in text
    assert followed.password.reveal() not in text
    assert followed.server.verifier.reveal() not in text


def test_destroying_a_replica_leaves_its_primary_serving(followed: Followed) -> None:
    replica = followed.follow()
    followed.backend.servers.destroy(replica.service_id)
    assert not paths_of(followed.backend, replica).root.exists()
    insert(followed, 50)
    assert 50 in followed.numbers(followed.server)
