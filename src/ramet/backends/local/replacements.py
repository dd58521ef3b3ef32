"""Replacing the data directory of a service by one that was made beside it."""

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import psycopg

from ramet.backends.interface.values import Capture, Server
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.restore import capture, recovery, snapshots, timeline_ends, timelines
from ramet.backends.local.restore.single_user import RECOVERY_SIGNAL, SingleUser
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances, place_of
from ramet.backends.local.servers import LocalServers
from ramet.backends.local.sql import carried_passwords, connections, foreign
from ramet.backends.local.sql.connections import PLATFORM_ROLE
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.wal import archive
from ramet.backends.local.wal.control_file import find_control_data, read_control_data
from ramet.backends.local.wal.locate import live_and_archived
from ramet.errors import Failed, Unavailable
from ramet.machine.waiting import wait_until

_log = logging.getLogger(__name__)
_TRANSACTIONS_SECONDS = 2.0
_PAUSE_SECONDS = 0.01
_LOG = "timeline.log"


@dataclass(frozen=True)
class LocalReplacements:
    """Copies that take a service over; obeys ramet.backends.interface.replacements.Replacements."""

    instances: Instances
    driver: Driver
    servers: LocalServers

    def check(self) -> None:
        """Allow every replacement."""

    def reserve_timeline(self, copy: Server, service_id: str, captured: Capture) -> Capture:
        data = self._paths(copy).data
        timelines.reserve(data, self._last_timeline(copy, service_id), self.instances.installation_of(copy))
        if not recovery.ends_on_its_timeline(captured):
            return captured
        files.write(data / RECOVERY_SIGNAL)
        return recovery.leaving_its_timeline(captured)

    def leave_timeline(self, copy: Server, service_id: str, timeout_seconds: float) -> str | None:
        paths = self._paths(copy)
        capture.check_boot(paths)
        self.instances.config.write(copy, Phase.CLOSED)
        last = self._last_timeline(copy, service_id)
        found = timelines.leave(self._single_user(copy), last, timeout_seconds)
        if isinstance(found, str):
            return found
        timelines.seal(paths.data, found.timeline)
        capture.flush(paths)  # recovery has flushed nothing, and a rewind serves without another start before
        return None

    def starts_quietly(self, copy: Server) -> bool:
        if foreign.read(self._paths(copy)) is not None:
            return False  # it has to be adopted first
        logs = (self._paths(copy).recovery_log, self._paths(copy).log / _LOG)
        return any(recovery.has_found_no_subscription(log) for log in logs)

    def secure(self, copy: Server, *, rotate: bool, neutralize: bool) -> dict[str, Any]:
        return self.instances.secure(copy, is_new=False, neutralize=neutralize, rotates_all=rotate)

    def close(self, copy: Server) -> None:
        paths = self._paths(copy)
        self.instances.await_end(copy)
        if paths.data.is_dir():
            timelines.seal(paths.data, read_control_data(self.instances.installation_of(copy), paths.data).timeline)

    def flush(self, server: Server) -> None:
        try:
            with connections.connect(self._paths(server), statement_timeout="0") as connection:
                connection.execute("CHECKPOINT")
        except (psycopg.Error, Unavailable) as error:
            _log.info("service %s is stopped without a checkpoint before: %s", server.service_id, error)

    def release(self, server: Server, copy: Server) -> None:
        """Stop the server; its pooler waits, but not for transactions that take longer than a few seconds.

        One that was stopped before its passwords were noted is started for that: the copy has other ones. The off-host
        archive waits until the service is opened, or the copy is removed.
        """
        paths, beside = self._paths(server), self._paths(copy)
        if paths.root.is_dir():  # one whose directory is lost has nothing to archive
            files.write(paths.replaced_by, copy.service_id, durable=True)
        if server.pooler_port is not None and postgres.is_ready(paths):
            self.servers.poolers.pause(server.service_id)
            wait_until(lambda: not _pooled_transactions(paths), _TRANSACTIONS_SECONDS, _PAUSE_SECONDS)
        try:
            must_run = not carried_passwords.are_noted(beside)
            self.servers.halt(server, lambda: carried_passwords.note(paths, beside), must_run=must_run)
        except Failed as error:  # its data is kept as it is
            _log.warning("service %s is replaced, and could not be stopped cleanly: %s", server.service_id, error)
        else:
            if not carried_passwords.are_noted(beside):
                what = f"The server of service {server.service_id} ended before the passwords of its roles were read"
                raise Unavailable("SERVER_UNREACHABLE", what)

    def move_data(self, source: Server, target: Server, snapshot_ids: Sequence[str] = ()) -> None:
        """Rename the data directory, which is one act, after the snapshots."""
        giver, taker = self._paths(source), self._paths(target)
        if giver.data.is_dir() and not taker.data.exists():
            self._move_data(source, target, snapshot_ids)
        capture.move_note(giver, taker)
        # Also in a second run: the first may have been killed before its renames were on disk.
        for directory in (taker.snapshots, taker.root, giver.snapshots, giver.root):
            with contextlib.suppress(FileNotFoundError):
                files.flush(directory)

    def _move_data(self, source: Server, target: Server, snapshot_ids: Sequence[str]) -> None:
        giver, taker = self._paths(source), self._paths(target)
        if postgres.running(giver) is not None:
            raise Unavailable("SERVER_ENDING", f"The server of service {source.service_id} is still shutting down")
        self.instances.make_directories(target)
        for snapshot_id in snapshot_ids:
            kept = snapshots.directory_of(giver, snapshot_id)
            if kept.is_dir():
                # Before the exchange the service had other data: its snapshots and base backups go by this time.
                base = snapshots.base_of(giver, snapshot_id)
                facts = replace(base.facts, taken_at=datetime.now(UTC))
                snapshots.record(giver, snapshot_id, replace(base, facts=facts))
                kept.rename(snapshots.directory_of(taker, snapshot_id))
        self._add_histories(giver, taker)
        self.instances.quotas.adopt(place_of(taker), giver.data)
        giver.data.rename(taker.data)

    def withdraw_timeline(self, server: Server, previous: Server) -> None:
        paths, before = self._paths(server), self._paths(previous)
        if self._timeline(previous) is not None:
            timelines.withdraw(paths, timelines.newest(before, self.instances.installation_of(previous)))
        elif (began := self._timeline(server)) is not None:  # the data before is damaged or lost
            timelines.withdraw(paths, began - 1)

    def adopt(self, server: Server, copy: Server) -> None:
        carried_passwords.apply(self._paths(server), self._paths(copy))

    def end_timeline(self, server: Server, previous: Server) -> None:
        before, after = self._paths(previous), self._paths(server)
        timeline_ends.end(self.driver, before, after, self.instances.installation_of(server))

    def open(self, server: Server) -> None:
        paths = self._paths(server)
        paths.replaced_by.unlink(missing_ok=True)
        files.flush(paths.root)
        if server.pooler_port is not None:  # one that waits answers nobody
            self.instances.open(server)
            self.servers.poolers.resume(server.service_id)
        self.servers.open(server)

    def _add_histories(self, giver: ServicePaths, taker: ServicePaths) -> None:
        """Let the archive that the data will be archived in have the histories of its timelines."""
        for directory in live_and_archived(giver):
            archive.add_histories(directory, taker.archive)

    def _last_timeline(self, copy: Server, service_id: str) -> int:
        return timelines.newest(self.instances.paths(service_id), self.instances.installation_of(copy))

    def _timeline(self, server: Server) -> int | None:
        """Return the timeline of a server's data; None when it has none that can be read."""
        control = find_control_data(self.instances.installation_of(server), self._paths(server).data)
        return None if control is None else control.timeline

    def _single_user(self, copy: Server) -> SingleUser:
        paths, account = self._paths(copy), self.instances.account
        return SingleUser(
            paths.root, paths.data, paths.config_file, paths.log / _LOG, self.instances.installation_of(copy), account
        )

    def _paths(self, server: Server) -> ServicePaths:
        return self.instances.paths(server.service_id)


def _pooled_transactions(paths: ServicePaths) -> int:
    """Return how many sessions of the private socket, other than the platform's, are within a transaction."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND client_addr IS NULL"
        " AND usename IS DISTINCT FROM %s AND state <> 'idle'"
    )
    try:
        with connections.connect(paths) as connection:
            return int(connection.execute(query, (PLATFORM_ROLE,)).fetchall()[0][0])
    except (psycopg.Error, Unavailable):
        return 0
