"""The configuration files of a server: writing them, by what its installation and its directories have."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ramet.backends.interface.values import Server
from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import GONE
from ramet.backends.local.host.paths import Layout, ServicePaths, make_private_parents
from ramet.backends.local.host.system_user import Account
from ramet.backends.local.process import log_files, postgres
from ramet.backends.local.server import access, configuration, copies
from ramet.backends.local.server.configuration import MAX_PREPARED, Features, Phase
from ramet.backends.local.server.parameters import without_module
from ramet.backends.local.server.read_only_module import Modules
from ramet.backends.local.sql import connections, foreign
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.wal.control_file import (
    find_control_data,
    read_max_prepared_transactions,
    read_standby_settings,
)
from ramet.machine.installation import Installation, Installations
from ramet.model.service_type import ServiceType


@dataclass(frozen=True)
class ConfigFiles:
    """The configuration files of the servers of one data root, and what they depend on."""

    layout: Layout
    account: Account
    installations: Installations
    copy_on_write: bool = True
    temp_file_mbs: int = configuration.DEFAULT_TEMP_FILE_MBS
    slot_wal_mbs: int = configuration.DEFAULT_SLOT_WAL_MBS
    source_archives: Path | None = None

    @cached_property
    def read_only_modules(self) -> Modules:
        """The modules for read-only sessions of these servers."""
        return Modules()

    def make_sockets(self, paths: ServicePaths) -> None:
        """Create the directory of a server's sockets unless it exists: each configuration includes it."""
        make_private_parents(paths.sockets)
        self.account.make_directory(paths.sockets)

    def features(self, server: Server) -> Features:
        """Return the capabilities of a server's installation."""
        installation = self.installations.of(server.pg_major)
        preload = self.preload_of(server.service_type, installation)
        return Features(
            installation.has_tls,
            preload,
            self.copy_on_write,
            self.temp_file_mbs,
            slot_wal_mbs=self.slot_wal_mbs,
            source_archives=self.source_archives,
            explains=installation.has_library("auto_explain"),
            wal_compression="lz4" if "lz4" in installation.wal_compressions else "pglz",
        )

    def preload_of(self, service_type: ServiceType, installation: Installation) -> tuple[str, ...]:
        """Return the libraries that servers of a type load at their start.

        Without that of TimescaleDB a server would not return compressed rows: where it is missing, none starts.
        """
        needed = ("timescaledb",) if service_type is ServiceType.TIMESERIESDB else ()
        return needed + tuple(name for name in ("pg_stat_statements",) if installation.has_library(name))

    def extensions(self, server: Server) -> tuple[str, ...]:
        """Return the extensions that a new service gets."""
        own = self.installations.of(server.pg_major).extensions_of(server.service_type)
        statistics = ("pg_stat_statements",) if "pg_stat_statements" in self.features(server).preload else ()
        return own + statistics

    def write(self, server: Server, phase: Phase = Phase.CLOSED) -> None:
        """Write the configuration files of a server, which the next start or reload reads."""
        paths = self.layout.service(server.service_id)
        self.make_sockets(paths)
        self.write_to(server, paths, phase)

    def write_to(self, server: Server, paths: ServicePaths, phase: Phase) -> None:
        """Write the configuration files of a server, whose directories exist, to other paths than a service has."""
        for path, text in self._configuration(server, paths, phase):
            files.update(path, text)

    def keep_out(self, server: Server, superusers: Sequence[str], connection: Connection) -> bool:
        """Write who may connect if a server is open, and its source has these superusers; tell whether to load that."""
        paths = self.layout.service(server.service_id)
        wanted = _hba(paths, replace(self.features(server), superusers=superusers), Phase.OPEN)
        in_force = files.read(paths.hba_file, errors="surrogateescape")
        if not access.is_open(in_force):
            return False
        if in_force == wanted and not is_unloaded(paths.hba_file, connection):
            return False
        files.update(paths.ident_file, self.ident(Phase.OPEN, superusers))  # an earlier release had other maps
        # Also the same text: after the clock was set back, the file may be later than each reload.
        files.write(paths.hba_file, wanted)
        return True

    def ident(self, phase: Phase, superusers: Sequence[str]) -> str:
        """Return pg_ident.conf of a server whose source has these superusers."""
        users = ("root", self.account.name) if self.account.lent else (self.account.name,)
        return access.pg_ident_conf(users, phase, superusers)

    def why_unreadable(self, server: Server) -> str | None:
        """Let PostgreSQL read the configuration of a server from another file; return what it says against it."""
        paths = self.layout.service(server.service_id)
        self.make_sockets(paths)
        file = paths.conf / f"postgresql.conf.tried-{secrets.token_hex(4)}"
        (_, text), *_ = self._configuration(server, paths, Phase.CLOSED)
        files.write(file, text)
        try:
            self.account.own(file)
            return postgres.why_unreadable(file, paths, self.installations.of(server.pg_major), self.account)
        finally:
            file.unlink(missing_ok=True)

    def leave_out_unusable_module(self, server: Server) -> None:
        """Remove a module from a server that has just started if the server cannot load it."""
        paths = self.layout.service(server.service_id)
        if self.read_only_modules.provide(paths, server.pg_major) is None:
            in_force = files.read_existing(paths.config_file)
            without = without_module(in_force)
            if without != in_force:
                files.write(paths.config_file, without)
                postgres.reload(paths)

    def _configuration(self, server: Server, paths: ServicePaths, phase: Phase) -> Iterable[tuple[Path, str]]:
        """Return the configuration files, the main one first."""
        found = self.read_only_modules.provide(paths, server.pg_major)
        superusers = foreign.names_of(foreign.read(paths))
        features = replace(
            self.features(server),
            read_only_module=found,
            databases=_count_databases(paths),
            at_least=self._at_least(server, paths),
            origins=self._origins(server, paths),
            superusers=superusers,
        )
        config = configuration.postgresql_conf(server, paths, features, phase)
        if copies.is_admitted(paths):
            config = copies.keeping_wal(config, self.slot_wal_mbs)
        return (
            (paths.config_file, config),
            (paths.hba_file, _hba(paths, features, phase)),
            (paths.ident_file, self.ident(phase, superusers)),
        )

    def _at_least(self, server: Server, paths: ServicePaths) -> Mapping[str, int]:
        if server.upstream is None or not paths.data.is_dir():
            return {MAX_PREPARED: read_max_prepared_transactions(paths.data)}
        return read_standby_settings(self.installations.of(server.pg_major), paths.data)

    def _origins(self, server: Server, paths: ServicePaths) -> int:
        """Return how many replication origins a server may have the progress of.

        WAL since the last checkpoint may have that of more than the file: what was allowed stays until all is in there.
        Earlier releases lowered it, and the last start may have ended at the first one too many.
        """
        name, most = next(iter(configuration.for_origins(server.pg_major).items()))
        if f"{name} = '{most}'" in files.read(paths.config_file) or log_files.lacked_origins(paths):
            control = find_control_data(self.installations.of(server.pg_major), paths.data)
            if control is not None and not control.is_clean:
                return int(most)
        return _count_origins(paths)


def is_unloaded(file: Path, connection: Connection) -> bool:
    """Tell whether a server has loaded nothing since a file was written: a killed call was to let it do that."""
    query = "SELECT pg_conf_load_time() < to_timestamp(%s)"
    return bool(connections.value(connection, query, file.stat().st_mtime))


def _hba(paths: ServicePaths, features: Features, phase: Phase) -> str:
    hba = access.pg_hba_conf(features, phase)
    return copies.admitting(hba, features.has_tls) if copies.is_admitted(paths) else hba


def _count_databases(paths: ServicePaths) -> int:
    """Return the number of databases of a server by its files; 0 before initdb."""
    base = paths.data / "base"
    return sum(1 for entry in base.iterdir() if entry.name.isdigit()) if base.is_dir() else 0


def _count_origins(paths: ServicePaths) -> int:
    """Return the number of replication origins whose progress a server has, by its file.

    ReplicationStateOnDisk takes 16 bytes of it for each, a magic number and a checksum 8 (PostgreSQL 15 to 18).
    """
    try:
        return max(0, (paths.data / "pg_logical" / "replorigin_checkpoint").stat().st_size - 8) // 16
    except GONE:
        return 0
