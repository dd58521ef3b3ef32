"""What servers elsewhere read of the servers of this host."""

from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from ramet.backends.interface.replication import ReplicationSlot, ReplicationSlots, Trust
from ramet.backends.interface.values import Server
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.server import copies
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections, mover, roles
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.sql.mover import MOVER_ROLE
from ramet.backends.local.sql.raw_names import shown_values
from ramet.backends.local.sql.unlogged import unlogged_tables
from ramet.backends.local.wal.control_file import read_control_data
from ramet.errors import Unavailable
from ramet.model.passwords import Secret

# Each end of a transaction that has an ID advances xmax, unless a younger one has ended before: then xmin is less than
# xmax. What is prepared is durable without an end. A restart may lose commits that were not flushed, and give their IDs
# to others; one after the crash of a single process keeps pg_postmaster_start_time(), and starts another checkpointer.
_MARK = """
SELECT pg_snapshot_xmin(now), pg_snapshot_xmax(now), checkpointer.backend_start::text,
       checkpointer.backend_start IS NULL OR pg_is_in_recovery() OR EXISTS (SELECT FROM pg_prepared_xact())
FROM pg_current_snapshot() AS now
LEFT JOIN pg_stat_get_activity(NULL) AS checkpointer ON checkpointer.backend_type = 'checkpointer'
"""
_MARK_SECONDS = 3
_DIRECTORY = "pg_replslot"
_MIB = 1024**2
# A setting without a unit is in megabytes; -1 means no limit. The restart_lsn of a lost slot is null.
_LIMIT = "SELECT setting::bigint FROM pg_show_all_settings() WHERE name = 'max_slot_wal_keep_size'"
_SLOTS = """
SELECT slot_name, plugin, database, active, wal_status,
       greatest(0, pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                        ELSE pg_current_wal_lsn() END, restart_lsn))::bigint
FROM pg_replication_slots WHERE NOT temporary ORDER BY slot_name
"""


@dataclass(frozen=True)
class LocalReplication:
    """Slots and roles of running servers; obeys ramet.backends.interface.replication.Replication."""

    instances: Instances

    def slots(self, server: Server, *, reads_volume: bool = True) -> ReplicationSlots:
        """Return the slots that a running server reports, or those in the files of a stopped one."""
        paths = self.instances.paths(server.service_id)
        if postgres.running(paths) is None:
            return ReplicationSlots(None, [ReplicationSlot(name) for name in _names_on_disk(paths)])
        with connections.connect(paths) as connection:
            return slots_of(connection)

    def commit_mark(self, server: Server) -> str | None:
        """Ask the server; one that does not answer soon has no mark."""
        paths, bound = self.instances.paths(server.service_id), f"{_MARK_SECONDS}s"
        try:
            with connections.connect(
                paths, timeout_seconds=_MARK_SECONDS, statement_timeout=bound, lock_timeout=bound
            ) as connection:
                return mark_of(connection)
        except (psycopg.OperationalError, Unavailable):
            return None

    def permit(self, server: Server) -> None:
        """Give the admin the attribute REPLICATION, or take it from every role of a tenant."""
        with connections.connect(self.instances.paths(server.service_id)) as connection, connection.transaction():
            roles.set_admin_replication(connection, server.wal_level)

    def admit_copy(self, server: Server, verifier: Secret) -> str:
        """Create the role, and let pg_hba.conf admit it."""
        paths = self.instances.paths(server.service_id)
        with connections.connect(paths) as connection, connection.transaction():
            mover.let_in(connection, verifier)
        copies.admit(paths)
        features = self.instances.config.features(server)
        self._change(
            paths,
            lambda config: copies.keeping_wal(config, features.slot_wal_mbs),
            lambda hba: copies.admitting(hba, features.has_tls),
        )
        return MOVER_ROLE

    def hasten_copy(self, server: Server) -> None:
        with connections.connect(self.instances.paths(server.service_id), statement_timeout="0") as connection:
            mover.hasten(connection)

    def refuse_copy(self, server: Server) -> None:
        """Let pg_hba.conf refuse the role, and remove it, unless the server is stopped: then its next opening does."""
        paths = self.instances.paths(server.service_id)
        if not copies.refuse(paths) or postgres.running(paths) is None:
            return
        self._change(paths, copies.keeping_no_wal, copies.refusing)
        copies.clear(paths)

    def trust(self, server: Server) -> Trust | None:
        """Leave it to the authority of this host."""
        return None

    def end_lsn(self, server: Server) -> str | None:
        """Return the LSN of the checkpoint of its shutdown, by the control file."""
        installation = self.instances.installation_of(server)
        control = read_control_data(installation, self.instances.paths(server.service_id).data)
        return control.checkpoint_lsn if control.is_clean else None

    def unlogged_tables(self, server: Server) -> list[str]:
        return unlogged_tables(self.instances.paths(server.service_id))

    def _change(self, paths: ServicePaths, config: Callable[[str], str], hba: Callable[[str], str]) -> None:
        """Change postgresql.conf and pg_hba.conf of a running server, which may be open or closed."""
        for path, change in ((paths.config_file, config), (paths.hba_file, hba)):
            files.write(path, change(files.read_existing(path, errors="surrogateescape")))
        postgres.reload(paths)


def _names_on_disk(paths: ServicePaths) -> list[str]:
    directory = paths.data / _DIRECTORY
    return sorted(each.name for each in directory.iterdir() if each.is_dir()) if directory.is_dir() else []


def slots_of(connection: Connection) -> ReplicationSlots:
    """Return the slots that a running server reports."""
    ((limit,),) = connection.execute(_LIMIT).fetchall()
    rows = connection.execute(_SLOTS).fetchall()
    return ReplicationSlots(None if limit < 0 else limit * _MIB, [ReplicationSlot(*shown_values(row)) for row in rows])


def mark_of(connection: Connection) -> str | None:
    """Return the mark of a server, as `Replication.commit_mark` describes it."""
    xmin, xmax, started, is_uncertain = connections.row(connection, _MARK)
    return None if is_uncertain or xmin != xmax else f"{xmax} {started}"
