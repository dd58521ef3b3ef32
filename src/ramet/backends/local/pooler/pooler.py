"""The pooler of a service: a PgBouncer process that reads passwords from the server, and outlives this process."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ramet.backends.interface.values import Server, Sessions
from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import looking_at
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.pooler.pgbouncer import (
    LOG,
    USERLIST,
    Pooling,
    advice_for_clients,
    find_pgbouncer,
    pgbouncer_ini,
    userlist,
)
from ramet.backends.local.process.daemon import Daemon
from ramet.backends.local.server import probe
from ramet.backends.local.server.client_sessions import client_sessions
from ramet.backends.local.server.configuration import listen_addresses, max_connections
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import ADMIN_ROLE, DATABASE
from ramet.backends.local.sql.service_roles import ensure_pooler_role_of
from ramet.errors import Failed, Invalid, Unavailable
from ramet.machine.waiting import wait_until

POOLER = "pooler"
BALANCER = "balancer"
_CONFIGURATION = "pgbouncer.ini"
_LARGEST_LOG_BYTES = 4 * 1024**2
_END_SECONDS = 5.0
_ANSWERS_WITHIN_SECONDS = 8.0
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class Poolers:
    """The poolers of one data root, or the balancers, each of which is the endpoint of several servers.

    It obeys ramet.backends.interface.poolers.Poolers.
    """

    instances: Instances
    kind: str = POOLER

    def check(self) -> str:
        """Return what clients of a transaction pool must know. Raises Invalid when this host has no PgBouncer."""
        return advice_for_clients(find_pgbouncer())

    def check_database(self, server: Server) -> None:
        check_database(self.instances.paths(server.service_id))

    def start(self, servers: Sequence[Server], port: int) -> None:
        """Start the pooler of running servers, or reload its configuration; return when it accepts clients.

        May run again. Its files are in the directory of the first server, whose certificate it uses. Raises Failed,
        with its log, when it does not accept connections, Invalid when its database does not exist, and Unavailable
        when the service is being deleted.
        """
        first = servers[0]
        writing = self.instances.paths(first.primary.service_id if first.primary else first.service_id)
        ensure_pooler_role_of(writing)
        if self.kind == POOLER:
            check_database(writing)
        self._run(self.instances.paths(first.service_id), self._pooling(servers, port))

    def _run(self, paths: ServicePaths, pooling: Pooling) -> None:
        """Start or reload a PgBouncer, and return when it asks clients for passwords."""
        program, daemon = find_pgbouncer(), self._daemon(paths.service_id)
        account = self.instances.account
        account.make_directory(daemon.home)
        with daemon.alone():
            if not paths.data.exists():
                raise Unavailable("SERVICE_GONE", f"Service {paths.service_id} is being deleted")
            text = pgbouncer_ini(pooling, program, daemon.home)
            is_down = daemon.running() is None
            if is_down or files.read(daemon.home / _CONFIGURATION) != text:
                files.write(daemon.home / USERLIST, userlist())
                files.write(daemon.home / _CONFIGURATION, text)  # last: a call that was killed before writes both again
            if is_down:
                self.bound_logs(paths.service_id)
                daemon.start([str(program.path), "-q", str(daemon.home / _CONFIGURATION)], account)
            else:
                daemon.reload()  # also an unchanged one: the call that wrote it may have been killed before its reload
        _await_answer(daemon, pooling)

    def load_certificate(self, service_id: str) -> None:
        """Let the pooler and the balancer of a server, if they run, load its certificate again. May run again."""
        for kind in (POOLER, BALANCER):
            daemon = Poolers(self.instances, kind)._daemon(service_id)
            if daemon.home.is_dir():
                daemon.reload()

    def bound_logs(self, service_id: str) -> None:
        """Truncate the logs of the pooler and the balancer of a server when they are long. May run again.

        Whoever reaches the port makes PgBouncer log its errors, which it appends to the file.
        """
        for kind in (POOLER, BALANCER):
            home = Poolers(self.instances, kind)._daemon(service_id).home
            with contextlib.suppress(OSError, Failed):  # there is none, it is being stopped, or a link is in its place
                _bound(home, LOG)

    def serves(self, service_id: str) -> bool:
        """Tell whether the pooler's process runs. Raises Unseen when that cannot be determined."""
        with looking_at(f"the {self.kind} of service {service_id}"):
            return self._daemon(service_id).running() is not None

    def pause(self, service_id: str) -> None:
        """Let the clients of a service's pooler wait: their next transaction begins after `resume`. May run again."""
        self._daemon(service_id).pause()

    def resume(self, service_id: str) -> None:
        """Let the clients of a service's pooler go on. May run again."""
        self._daemon(service_id).resume()

    def sessions(self, server: Server) -> Sessions | None:
        """Return the sessions of clients on a server, its pooler and its balancer; None when it does not serve."""
        paths = self.instances.paths(server.service_id)
        return client_sessions(paths, [paths.root / kind for kind in (POOLER, BALANCER)])

    def stop(self, service_id: str) -> None:
        """Stop the pooler of a service with its sessions, and remove its files; no pooler is no error.

        Raises Unavailable while it is still shutting down, or when that cannot be determined.
        """
        daemon = self._daemon(service_id)
        if not daemon.home.is_dir():
            return
        with looking_at(f"the {self.kind} of service {service_id}"), daemon.alone():
            if not daemon.end(_END_SECONDS):
                raise Unavailable("POOLER_ENDING", f"The {self.kind} of service {service_id} is still shutting down")
        shutil.rmtree(daemon.home)
        shutil.rmtree(self._links(service_id), ignore_errors=True)

    def stop_all(self, service_id: str) -> None:
        """Stop the pooler and the balancer of a service; none of them is no error."""
        for kind in (POOLER, BALANCER):
            Poolers(self.instances, kind).stop(service_id)

    def _daemon(self, service_id: str) -> Daemon:
        return Daemon(self.instances.paths(service_id).root / self.kind)

    def _links(self, service_id: str) -> Path:
        return self.instances.paths(service_id).sockets / self.kind

    def _sockets(self, servers: Sequence[Server]) -> tuple[Path, ...]:
        """Return the socket directories of the servers; for several servers, links to their sockets under one port.

        PgBouncer accepts several hosts for a database, but one port only.
        """
        found = [self.instances.paths(server.service_id).sockets for server in servers]
        if len(found) == 1:
            return tuple(found)
        links = self._links(servers[0].service_id)
        self.instances.account.make_directory(links)
        return tuple(
            self._link(links / str(n), found[n], servers[n].listen_port, servers[0].listen_port)
            for n in range(len(found))
        )

    def _link(self, directory: Path, sockets: Path, port: int, shown_port: int) -> Path:
        self.instances.account.make_directory(directory)
        link = directory / f".s.PGSQL.{shown_port}"
        link.unlink(missing_ok=True)
        link.symlink_to(sockets / f".s.PGSQL.{port}")
        return directory

    def _pooling(self, servers: Sequence[Server], port: int) -> Pooling:
        first = servers[0]
        tls_files = self.instances.paths(first.service_id).tls
        tls = self.instances.config.features(first).has_tls
        return Pooling(
            addresses=listen_addresses(first.host, tls),
            port=port,
            sockets=self._sockets(servers),
            server_port=first.listen_port,
            connections=max_connections(replace(first, primary=None)),
            certificate=tls_files / "server.crt" if tls else None,
            key=tls_files / "server.key" if tls else None,
            certificate_mark=_mark_of(tls_files / "server.crt") if tls else "",
            balances=self.kind == BALANCER,
            reads_only=all(server.primary is not None for server in servers),
        )


def check_database(paths: ServicePaths) -> None:
    """Raise Invalid when a running server has no database `tsdb` that accepts connections."""
    with connections.connect(paths) as connection:
        found = connection.execute("SELECT datallowconn FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
    if found != (True,):
        raise Invalid(
            "DATABASE_MISSING",
            f"Service {paths.service_id} has no database {DATABASE} that accepts connections, which a pooler needs",
            f"Create it (CREATE DATABASE {DATABASE}), or allow connections to it.",
        )


def _await_answer(daemon: Daemon, pooling: Pooling) -> None:
    responded = wait_until(
        lambda: daemon.running() is None or _answers(pooling), _ANSWERS_WITHIN_SECONDS, _PAUSE_SECONDS
    )
    if not responded or daemon.running() is None:
        raise Failed(
            "POOLER_SILENT", f"The pooler on port {pooling.port} does not accept connections", daemon.last_lines(LOG)
        )


def _answers(pooling: Pooling) -> bool:
    tls = pooling.certificate is not None
    return probe.ask("localhost", pooling.port, ADMIN_ROLE, DATABASE, tls=tls) is probe.Answer.ASKS_PASSWORD


def _mark_of(certificate: Path) -> str:
    """Return a text that differs for each certificate; its key is its own, too."""
    found = files.read(certificate, errors="replace")
    return hashlib.sha256(found.encode()).hexdigest() if found else ""


def _bound(home: Path, name: str) -> None:
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    with files.opened_directory(home) as directory, files.opened(home / name, flags, parent=directory) as log:
        found = os.fstat(log)
        if found.st_size > _LARGEST_LOG_BYTES and found.st_nlink == 1:
            os.ftruncate(log, 0)
