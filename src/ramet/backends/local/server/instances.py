"""One server of the local backend, from its files to its endpoint: certificate, start, open, close, stop.

Other modules fill its data directory (restore) and its databases (sql).
"""

import contextlib
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import psycopg

from ramet.backends.interface.servers import SERVER_STARTING, SERVER_STOPPING
from ramet.backends.interface.values import Readiness, Server
from ramet.backends.local.host import files
from ramet.backends.local.host.certificates import Authority
from ramet.backends.local.host.cgroups import Limits
from ramet.backends.local.host.own_faults import is_own, looking_at
from ramet.backends.local.host.paths import Layout, ServicePaths, make_passage
from ramet.backends.local.host.system_user import Account
from ramet.backends.local.process import log_files, postgres
from ramet.backends.local.process.identity import children_of
from ramet.backends.local.process.log_bound import bound_log
from ramet.backends.local.server import access, configuration, copies, held_workers, probe, sessions
from ramet.backends.local.server.config_files import ConfigFiles, is_unloaded
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.jobs import Jobs, cpu_count
from ramet.backends.local.sql import adoption, connections, foreign, read_only_access, roles
from ramet.backends.local.sql.connections import ADMIN_ROLE, DATABASE, PLATFORM_ROLE
from ramet.backends.local.sql.read_only_roles import ReadOnlyRoles
from ramet.backends.local.sql.securing import secure_fork
from ramet.backends.local.sql.service_roles import ensure_pooler_role, retire_earlier_roles
from ramet.backends.local.volumes.atomic import remove_all, remove_files
from ramet.backends.local.volumes.quota import NoQuotas, Place, Quotas
from ramet.errors import Failed, Unavailable
from ramet.machine.installation import Installation, Installations
from ramet.machine.waiting import wait_until
from ramet.model.passwords import Secret

_log = logging.getLogger(__name__)
_OPEN_WITHIN_SECONDS = 60.0  # a host may be overloaded, and what fails here may have taken hours
_PROBE_EVERY_SECONDS = 0.002
_STOP_SECONDS = 120.0
_LOOK_SECONDS = 0.5
_PAUSE_SECONDS = 0.001
_RECOVERY_PAUSE_SECONDS = 0.05
# A setting that a later file sets, too, is not applied either, but has no error.
_LEFT_FOR_A_START = "SELECT FROM pg_file_settings WHERE NOT applied AND error IS NOT NULL"


@dataclass(frozen=True)
class Instances:
    """The servers of one data root, and what they share."""

    config: ConfigFiles
    authority: Authority
    limits: Limits
    background_jobs: int = field(default_factory=cpu_count)
    quotas: Quotas = field(default_factory=lambda: NoQuotas("nothing was set"))

    @property
    def layout(self) -> Layout:
        """Where the services of this data root are."""
        return self.config.layout

    @property
    def account(self) -> Account:
        """The system user of the servers."""
        return self.config.account

    @property
    def installations(self) -> Installations:
        """The installed versions of PostgreSQL."""
        return self.config.installations

    @cached_property
    def jobs(self) -> Jobs:
        """The background jobs on these servers."""
        return self.jobs_of("turns.lock", self.background_jobs)

    @cached_property
    def read_only_roles(self) -> ReadOnlyRoles:
        """The read-only roles of these servers."""
        return ReadOnlyRoles()

    def jobs_of(self, slots: str, most: int) -> Jobs:
        """Return jobs on these servers that share `most` slots, those of a file in the data root."""
        return Jobs(self.layout.services.parent / slots, most, self.config.make_sockets)

    def paths(self, service_id: str) -> ServicePaths:
        """Return the paths of a service."""
        return self.layout.service(service_id)

    def installation_of(self, server: Server) -> Installation:
        """Return the installed version of a server."""
        return self.installations.of(server.pg_major)

    def make_directories(self, server: Server) -> ServicePaths:
        """Create all directories of a service except its data directory; existing ones stay."""
        paths = self.paths(server.service_id)
        make_passage(self.layout.services)
        self.account.check_reach(self.layout.services)
        for directory in (paths.root, paths.conf, paths.tls, paths.archive, paths.snapshots, paths.log):
            self.account.make_directory(directory)
        self.quotas.enclose(place_of(paths))
        return paths

    def initialize(self, server: Server) -> None:
        """Run initdb in the data directory, which the caller has created empty."""
        installation = self.installation_of(server)
        self.account.check_reach(installation.bin)
        paths = self.paths(server.service_id)
        self.account.make_directory(paths.data)
        postgres.initialize(paths, installation, self.account, PLATFORM_ROLE)

    def start(self, server: Server, phase: Phase = Phase.CLOSED, overrides: Mapping[str, str] | None = None) -> None:
        """Start the server, closed to clients or open, unless it runs. `overrides` apply to this run only.

        The first start of a fork needs `configuration.first_boot()` as overrides. A server whose workers are held has
        them at each start.
        """
        paths = self.paths(server.service_id)
        if overrides is None and held_workers.are_held(paths):
            overrides = configuration.first_boot()
        if phase is not Phase.CLOSED:
            self.ensure_certificate(server)
        if postgres.running(paths) is None:
            self._limit_storage(paths)
            self.config.write(server, phase)
            pid = postgres.start(paths, self.installation_of(server), self.account, overrides)
            self.limits.apply(server.service_id, server.size, [pid])
        else:
            sessions.end_unconfirmed(paths)  # it may shut down still
        if phase is Phase.CLOSED:  # it has no TLS until it is opened, so the certificate is made while it starts
            self.ensure_certificate(server)

    def await_ready(self, server: Server, timeout_seconds: float) -> Readiness:
        """Wait for a starting server for at most `timeout_seconds`. Raises Failed, with its log, when it died."""
        paths = self.paths(server.service_id)
        readiness = postgres.await_ready(paths, timeout_seconds)
        if readiness.ready:
            self._limit_all(server, paths)
            bound_log(paths, self.account)
            self.config.leave_out_unusable_module(server)
        return readiness

    def open(self, server: Server) -> None:
        """Open the server to clients, and return when the endpoint asks them for their password.

        A standby whose source has a superuser that pg_hba.conf cannot name is open, and admits nobody.
        """
        paths = self.paths(server.service_id)
        copies.clear(paths)
        self.config.write(server, Phase.OPEN)
        admits = all(map(access.can_name, foreign.names_of(foreign.read(paths))))
        self._reload_until(server, probe.Answer.ASKS_PASSWORD if admits else probe.Answer.REFUSES)

    def is_open(self, server: Server) -> bool:
        """Tell whether a server that was started open, and so has its certificate and its port, asks for passwords."""
        private = self.paths(server.service_id).sockets / f".s.PGSQL.{server.listen_port}"
        return probe.ask_on_socket(private, ADMIN_ROLE, DATABASE) is probe.Answer.ASKS_PASSWORD

    def set_password(self, server: Server, verifier: Secret) -> None:
        """Change the admin's password on a running server."""
        roles.set_admin_verifier(self.paths(server.service_id), verifier, server.wal_level)

    def resize(self, server: Server) -> bool:
        """Apply another size while the server runs; False when that needs a restart, or the server is not ready."""
        paths = self.paths(server.service_id)
        if not postgres.is_ready(paths):
            return False
        in_force = files.read_existing(paths.config_file)
        self.config.write(server, Phase.OPEN)
        if self._takes_a_start(server, paths):
            files.update(paths.config_file, in_force)  # otherwise the reload that closes it would log this
            return False
        postgres.reload(paths)
        return True

    def _takes_a_start(self, server: Server, paths: ServicePaths) -> bool:
        """Tell whether the new size cannot be applied while the server runs."""
        try:
            self._limit_all(server, paths)
            with connections.connect(paths) as connection:
                return connection.execute(_LEFT_FOR_A_START).fetchone() is not None
        except (OSError, Unavailable) as error:  # memory in use cannot be taken from running processes
            if is_own(error):
                raise
            return True

    def close(self, server: Server) -> None:
        """Reject new clients, and return when the endpoint does; `sessions.end_all` ends existing sessions."""
        paths = self.paths(server.service_id)
        superusers = foreign.names_of(foreign.read(paths))
        features = replace(self.config.features(server), superusers=superusers)
        files.update(paths.hba_file, access.pg_hba_conf(features, Phase.CLOSED))  # first: what is seen goes by it
        files.update(paths.ident_file, self.config.ident(Phase.CLOSED, superusers))  # an earlier release had other maps
        files.update(paths.config_file, configuration.closing(files.read_existing(paths.config_file)))
        self._reload_until(server, probe.Answer.REFUSES)

    def secure(self, server: Server, *, is_new: bool, neutralize: bool, rotates_all: bool = True) -> dict[str, Any]:
        """Set the server's own credentials, and neutralize a fork; return what was neutralized. May run again.

        Without `rotates_all` only the admin gets another password.
        """
        paths = self.paths(server.service_id)
        if is_new:
            roles.bootstrap(paths, server.verifier, self.config.extensions(server), server.wal_level)
            return {}
        adopted = adoption.adopt(paths, neutralize=neutralize)
        found, is_current = secure_fork(paths, server, neutralize=neutralize, rotates_all=rotates_all)
        if not is_current:
            self.renew(server.service_id)
        return adoption.reported(found, adopted)

    def renew(self, service_id: str) -> bool:
        """Give a serving server that an earlier release made what this one gives to new ones; False: ask again."""
        try:
            return read_only_access.renew(self.paths(service_id))
        except (psycopg.Error, Unavailable) as error:
            _log.warning("service %s keeps what an earlier release put into its databases: %s", service_id, error)
            return False

    def renew_access(self, server: Server) -> None:
        """Apply this release's configuration, as far as that needs no restart, and update the platform's roles.

        May run again. Raises Unavailable when the server does not accept connections.
        """
        paths = self.paths(server.service_id)
        self.config.write(server, Phase.OPEN)
        postgres.reload(paths)
        if not server.is_standby:
            with connections.connect(paths) as connection, connection.transaction():
                ensure_pooler_role(connection)
                retire_earlier_roles(connection, server.wal_level)

    def stop(self, server: Server, timeout_seconds: float) -> bool:
        """Request a shutdown, and wait for at most `timeout_seconds`; True when the server has ended."""
        paths = self.paths(server.service_id)
        self.jobs.end(paths)
        sessions.end_unconfirmed(paths)
        return postgres.stop(paths, timeout_seconds)

    def restart(self, server: Server) -> None:
        """Stop the server of a primary when it does not recover, and start it closed to clients.

        Raises Unavailable while it takes longer than usual.
        """
        self.await_recovery(server)
        self.await_end(server)
        self.boot(server)

    def boot(self, server: Server, overrides: Mapping[str, str] | None = None) -> None:
        """Start the server closed to clients, and return when it is ready. Raises Unavailable as `restart` does."""
        self.start(server, overrides=overrides)
        if not wait_until(lambda: self.await_ready(server, _LOOK_SECONDS).ready, _STOP_SECONDS, _PAUSE_SECONDS):
            what = f"The server of service {server.service_id} is still starting"
            raise Unavailable(SERVER_STARTING, what, self._progress(server, "starting"))

    def await_end(self, server: Server) -> None:
        """Stop the server, and return when it has ended. Raises Unavailable as `restart` does."""
        if not wait_until(lambda: self.stop(server, _LOOK_SECONDS), _STOP_SECONDS, _PAUSE_SECONDS):
            what = f"The server of service {server.service_id} is still stopping"
            raise Unavailable(SERVER_STOPPING, what, self._progress(server, "stopping"))

    def await_recovery(self, server: Server) -> None:
        """Return when the server of a primary does not start or recover. Raises Unavailable as `restart` does.

        A shutdown would end its recovery, and the next start would begin it again.
        """
        paths = self.paths(server.service_id)
        if not wait_until(lambda: not postgres.is_starting(paths), _STOP_SECONDS, _RECOVERY_PAUSE_SECONDS):
            what = f"The server of service {server.service_id} is still recovering"
            raise Unavailable(SERVER_STARTING, what, self._progress(server, "recovering"))

    def _progress(self, server: Server, doing: str) -> str:
        pid = postgres.running(self.paths(server.service_id))
        return "" if pid is None else postgres.progress(pid, doing)

    def end(self, service_id: str, timeout_seconds: float) -> None:
        """Kill the server, and remove what belongs to its id: sockets, limits, certificates and records.

        Raises Unavailable while processes are still shutting down, or when that cannot be determined.
        """
        paths = self.paths(service_id)
        with looking_at(f"the server of service {service_id}"):
            self.jobs.end(paths)
            has_ended = postgres.kill(paths, timeout_seconds)
        if not has_ended:
            raise Unavailable("SERVER_ENDING", f"The server of service {service_id} is still shutting down")
        self.limits.remove(service_id)
        shutil.rmtree(paths.sockets, ignore_errors=not paths.sockets.exists())
        certificates = paths.tls.iterdir() if paths.tls.is_dir() else ()
        files_of_id = (paths.process_record, paths.start_lock, *certificates)
        remove_all(*(partial(file.unlink, missing_ok=True) for file in files_of_id))

    def remove(self, service_id: str, timeout_seconds: float) -> None:
        """Kill the server, and remove its sockets, limits and directories except `data` and `snapshots`.

        The volume driver removes those two. Raises Unavailable while processes are still shutting down.
        """
        self.end(service_id, timeout_seconds)
        self.remove_directories(service_id)

    def remove_directories(self, service_id: str) -> None:
        """Remove the directories of a server that has ended, except `data` and `snapshots`."""
        paths = self.paths(service_id)
        remove_all(*(partial(remove_files, each) for each in (paths.conf, paths.tls, paths.archive, paths.log)))
        with contextlib.suppress(OSError):
            self.layout.sockets.rmdir()  # the last service is gone

    def ensure_certificate(self, server: Server) -> bool:
        """Issue a certificate for the server, unless it has a valid one; `start` does so too. True: it is another."""
        if not self.installation_of(server).has_tls:
            return False
        tls, hosts = self.paths(server.service_id).tls, [server.host, *server.earlier_hosts]
        return self.authority.renew(tls / "server.crt", tls / "server.key", server.service_id, hosts)

    def keep_certificate(self, server: Server) -> None:
        """Replace the certificate of a running server before it ends, and let the server load it. May run again."""
        paths, is_new = self.paths(server.service_id), self.ensure_certificate(server)
        certificate = paths.tls / "server.crt"
        if certificate.exists() and (is_new or self._is_unloaded(certificate, paths)):
            postgres.reload(paths)

    def _is_unloaded(self, certificate: Path, paths: ServicePaths) -> bool:
        with connections.connect(paths) as connection:
            return is_unloaded(certificate, connection)

    def _limit_storage(self, paths: ServicePaths) -> None:
        try:
            self.quotas.apply(place_of(paths))
        except (Failed, OSError) as error:
            _log.warning("the storage quota of service %s could not be set: %s", paths.service_id, error)

    def _limit_all(self, server: Server, paths: ServicePaths) -> None:
        # Child processes that were started before the server was moved are not in its cgroup yet.
        pid = postgres.running(paths)
        if pid is not None:
            self.limits.apply(server.service_id, server.size, [pid, *(child for child, _ in children_of(pid))])

    def _reload_until(self, server: Server, wanted: probe.Answer) -> None:
        paths = self.paths(server.service_id)
        postgres.reload(paths)
        answers: list[probe.Answer] = []

        def is_switched() -> bool:
            answers.append(self._answer(server))
            if answers[-1] is not wanted and postgres.running(paths) is None:
                raise Unavailable("SERVER_UNREACHABLE", f"The server of service {server.service_id} is not running")
            return answers[-1] is wanted

        if not wait_until(is_switched, _OPEN_WITHIN_SECONDS, _PROBE_EVERY_SECONDS):
            raise Failed(
                "ENDPOINT_NOT_SWITCHED",
                f"The server of service {server.service_id} {answers[-1]} on port {server.listen_port}, and should not",
                log_files.last_lines(paths),
            )

    def _answer(self, server: Server) -> probe.Answer:
        tls = self.installation_of(server).has_tls
        return probe.ask("localhost", server.listen_port, ADMIN_ROLE, DATABASE, tls=tls)


def place_of(paths: ServicePaths) -> Place:
    """Return the directories of a service that its quota applies to."""
    return Place(paths.root, paths.data, paths.snapshots)
