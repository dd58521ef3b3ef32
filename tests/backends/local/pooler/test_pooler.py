"""A real PgBouncer before a real server: who gets in, which pools there are, and how it lives on."""

import errno
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.pooler import pooler
from ramet.backends.local.pooler.pgbouncer import LOG, USERLIST, describe_pgbouncer, find_pgbouncer
from ramet.backends.local.pooler.pooler import Poolers
from ramet.backends.local.process.daemon import Daemon
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.readdress import readdress
from ramet.backends.local.sql import connections
from ramet.errors import Failed, Invalid
from ramet.model.passwords import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server, restart
from tests.backends.local.scram_client import answer_to


@dataclass(frozen=True)
class Pooled:
    """A server with a pooler before it."""

    poolers: Poolers
    server: Server
    password: Secret

    @property
    def port(self) -> int:
        return port_of(self.server)

    @property
    def daemon(self) -> Daemon:
        return Daemon(self.poolers.instances.paths(self.server.service_id).root / "pooler")

    def start(self) -> None:
        self.poolers.start([self.server], self.port)

    def connect(self, **changes: str) -> psycopg.Connection[tuple[object, ...]]:
        return connect(self.server, changes.pop("password", self.password), **{"port": str(self.port), **changes})


def port_of(server: Server) -> int:
    assert server.pooler_port is not None
    return server.pooler_port


@pytest.fixture(scope="module")
def pooled(instances: Instances) -> Iterator[Pooled]:
    password = new_password()
    server = new_server(instances, password, pooler_port=free_port())
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    poolers = Poolers(instances)
    poolers.start([server], port_of(server))
    yield Pooled(poolers, server, password)
    poolers.stop(server.service_id)
    instances.remove(server.service_id, 10)


def test_the_password_of_the_endpoint_opens_the_pooler_too(pooled: Pooled) -> None:
    with pooled.connect() as connection:
        assert connection.execute("SELECT session_user, current_database()").fetchone() == ("tsdbadmin", "tsdb")


def test_server_and_pooler_load_a_certificate_for_another_host_under_their_sessions(
    pooled: Pooled, tmp_path: Path
) -> None:
    """From name to name nobody has to listen elsewhere; from localhost to a name the server does."""
    instances = pooled.poolers.instances
    (tmp_path / "ca.crt").write_text(instances.authority.pem)
    verified = {"host": "db.example.com", "hostaddr": "127.0.0.1", "sslmode": "verify-full"}
    verified["sslrootcert"] = str(tmp_path / "ca.crt")
    readdressed = replace(pooled.server, earlier_hosts=("db.example.com",))
    assert not readdress(instances, replace(readdressed, host="other.example.com"))
    with pooled.connect() as session, connect(pooled.server, pooled.password) as direct:
        assert readdress(instances, readdressed)
        pooled.start()
        eventually(lambda: _opens(pooled, port=str(pooled.server.port), **verified))
        eventually(lambda: _opens(pooled, **verified))
        assert _opens(pooled, **verified | {"host": "localhost"})
        for each in (session, direct):
            assert each.execute("SELECT 1").fetchone() == (1,)


def _opens(pooled: Pooled, **changes: str) -> bool:
    try:
        pooled.connect(**changes).close()
    except psycopg.OperationalError as error:
        assert "does not match host name" in str(error)  # noqa: PT017 - the old certificate, until it is loaded
        return False
    return True


def test_sessions_keep_their_state_in_the_session_pool(pooled: Pooled) -> None:
    with pooled.connect() as connection:
        connection.execute("CREATE TEMP TABLE mine (n int)")
        connection.execute("INSERT INTO mine VALUES (1)")
        assert connection.execute("SELECT n FROM mine").fetchone() == (1,)


def test_many_clients_share_few_servers_in_the_transaction_pool(pooled: Pooled) -> None:
    clients = [pooled.connect(dbname="tsdb_transaction") for _ in range(20)]
    try:
        pids = {client.execute("SELECT pg_backend_pid()").fetchone() for client in clients}
        assert len(pids) == 1
    finally:
        for client in clients:
            client.close()


def test_clients_without_prepared_statements_can_share_a_server(pooled: Pooled) -> None:
    with pooled.connect(dbname="tsdb_transaction") as first, pooled.connect(dbname="tsdb_transaction") as second:
        for client in (first, second):
            client.prepare_threshold = None
        for _ in range(7):
            assert first.execute("SELECT %s::int", (1,)).fetchone() == (1,)
            assert second.execute("SELECT %s::text", ("x",)).fetchone() == ("x",)


def test_a_changed_password_takes_effect_in_the_pooler_at_once(pooled: Pooled) -> None:
    with connect(pooled.server, pooled.password) as admin:
        admin.execute("CREATE ROLE clerk LOGIN PASSWORD 'first'")
        with pooled.connect(user="clerk", password="first") as clerk:
            assert clerk.execute("SELECT session_user").fetchone() == ("clerk",)
        admin.execute("ALTER ROLE clerk PASSWORD 'second'")
        with pooled.connect(user="clerk", password="second") as clerk:
            assert clerk.execute("SELECT session_user").fetchone() == ("clerk",)
        with pytest.raises(psycopg.OperationalError, match="authentication failed"):
            pooled.connect(user="clerk", password="first")


def test_passwords_that_ran_out_and_roles_that_may_not_log_in_are_refused(pooled: Pooled) -> None:
    with connect(pooled.server, pooled.password) as admin:
        admin.execute("CREATE ROLE late LOGIN PASSWORD 'x' VALID UNTIL '2020-01-01'")
        admin.execute("CREATE ROLE resting PASSWORD 'x'")
    for user in ("late", "resting"):
        with pytest.raises(psycopg.OperationalError, match="no such user"):
            pooled.connect(user=user, password="x")


@pytest.mark.parametrize("user", ["ramet", "ramet_pooler", "pg_ramet_pooler", "nobody", "without"])
@pytest.mark.parametrize("password", ["", "x"])
def test_no_role_connects_without_its_own_password(pooled: Pooled, user: str, password: str) -> None:
    with connect(pooled.server, pooled.password) as admin:
        admin.execute("DROP ROLE IF EXISTS without")
        admin.execute("CREATE ROLE without LOGIN")
    assert answer_to(pooled.port, user, "tsdb", password).startswith(b"E")


def test_the_client_of_these_tests_can_log_in(pooled: Pooled) -> None:
    assert answer_to(pooled.port, "tsdbadmin", "tsdb", pooled.password.reveal()).startswith(b"R")


def test_a_session_that_asks_to_be_read_only_is_refused_rather_than_ignored(pooled: Pooled) -> None:
    with pytest.raises(psycopg.OperationalError, match="options"):
        pooled.connect(options="-c tsdb_admin.read_only_connection=true")


def test_a_client_that_names_the_database_of_pgbouncer_itself_is_refused_at_once(pooled: Pooled) -> None:
    with pytest.raises(psycopg.OperationalError, match="FATAL"):
        pooled.connect(dbname="pgbouncer", connect_timeout="120")


def test_clients_without_tls_and_other_databases_are_refused(pooled: Pooled) -> None:
    with pytest.raises(psycopg.OperationalError, match="SSL required"):
        pooled.connect(sslmode="disable")
    with pytest.raises(psycopg.OperationalError, match="FATAL"):
        pooled.connect(dbname="postgres")


def test_a_search_path_of_tenants_does_not_reach_the_query_for_verifiers(pooled: Pooled) -> None:
    with connect(pooled.server, pooled.password) as admin:
        admin.execute("CREATE SCHEMA trap")
        admin.execute("CREATE TABLE trap.pg_authid (rolname name, rolpassword text)")
        admin.execute("ALTER DATABASE tsdb SET search_path = trap, pg_catalog")
        try:
            Pooled.connect(pooled).close()
        finally:
            admin.execute("ALTER DATABASE tsdb RESET search_path")
            admin.execute("DROP SCHEMA trap CASCADE")


def test_a_running_pooler_is_found_again_and_not_started_twice(pooled: Pooled) -> None:
    pid = pooled.daemon.running()
    assert pid is not None
    (pooled.daemon.home / "process.json").unlink()
    again = Poolers(pooled.poolers.instances)
    again.start([pooled.server], pooled.port)
    assert again.serves(pooled.server.service_id)
    assert pooled.daemon.running() == pid


def test_a_configuration_is_loaded_again_because_the_call_that_wrote_it_may_have_been_killed(pooled: Pooled) -> None:
    log = pooled.daemon.home / LOG
    before = log.read_text().count("got SIGHUP")
    pooled.start()
    eventually(lambda: log.read_text().count("got SIGHUP") > before)


def test_a_configuration_is_written_after_the_passwords_so_that_a_killed_call_writes_both_again(
    pooled: Pooled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise OSError(errno.ENOSPC, "no space")

    configuration = pooled.daemon.home / "pgbouncer.ini"
    configuration.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(pooler, "userlist", fail)
        with pytest.raises(OSError, match="no space"):
            pooled.start()
    assert not configuration.exists()
    pooled.start()
    assert configuration.exists()


def test_a_killed_pooler_is_started_again(pooled: Pooled) -> None:
    pid = pooled.daemon.running()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not pooled.poolers.serves(pooled.server.service_id))
    pooled.start()
    with pooled.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_clients_come_back_after_the_server_was_restarted(pooled: Pooled) -> None:
    instances = pooled.poolers.instances
    instances.stop(pooled.server, 30)
    restart(instances, pooled.server)
    instances.open(pooled.server)
    eventually(lambda: _answers(pooled))


def _answers(pooled: Pooled) -> bool:
    try:
        with pooled.connect() as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_changes_of_tenants_to_the_role_of_poolers_are_reverted(pooled: Pooled) -> None:
    with connections.connect(_paths(pooled)) as platform:
        platform.execute("REVOKE pg_read_all_data FROM pg_ramet_pooler")
        pooled.start()
    with pooled.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_files_of_a_pooler_contain_no_secret(pooled: Pooled) -> None:
    texts = [path.read_text() for path in pooled.daemon.home.iterdir() if path.name != USERLIST]
    assert not any(pooled.password.reveal() in text or "SCRAM-SHA-256$4096" in text for text in texts)
    assert all(path.stat().st_mode & 0o077 == 0 for path in pooled.daemon.home.iterdir() if path.name != "lock")


def test_stopping_leaves_nothing(pooled: Pooled) -> None:
    pooled.poolers.stop(pooled.server.service_id)
    pooled.poolers.stop(pooled.server.service_id)
    assert not pooled.daemon.home.exists()
    with pytest.raises(psycopg.OperationalError, match="Connection refused"):
        pooled.connect()
    pooled.start()


def test_a_pooler_that_cannot_listen_reports_why(pooled: Pooled) -> None:
    pooled.poolers.stop(pooled.server.service_id)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Failed, match="does not accept connections"):
        pooled.poolers.start([pooled.server], taken.getsockname()[1])
    pooled.poolers.stop(pooled.server.service_id)
    pooled.start()


def test_the_error_without_pgbouncer_names_the_package_to_install() -> None:
    assert find_pgbouncer().version >= (1, 17)
    with pytest.raises(Invalid, match="Install it"):
        find_pgbouncer({"RAMET_PGBOUNCER": "/nonexistent/pgbouncer"})


def test_the_doctor_says_whether_poolers_are_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "PgBouncer 1." in describe_pgbouncer()
    monkeypatch.setenv("RAMET_PGBOUNCER", "/nonexistent/pgbouncer")
    assert "Install it" in describe_pgbouncer()


def _paths(pooled: Pooled) -> ServicePaths:
    return pooled.poolers.instances.paths(pooled.server.service_id)
