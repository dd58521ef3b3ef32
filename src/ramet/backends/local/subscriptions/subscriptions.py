"""Subscriptions of servers of this host; obeys ramet.backends.interface.subscriptions.Subscriptions."""

import contextlib
import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.subscriptions import (
    SOURCE_UNREACHABLE,
    PublisherFacts,
    SubscriptionState,
    missing_subscription,
    removal,
    unpublished_tables,
)
from ramet.backends.interface.values import Progress, Server
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.server.read_only_storage import NOT_RECEIVED, receives_nothing
from ramet.backends.local.server.standby import ROOT_CERTIFICATE, connection_of
from ramet.backends.local.sources.copying import write_password
from ramet.backends.local.sources.sources import UNREADABLE, words_of
from ramet.backends.local.sources.tools import MORE_LOCKS, lacks_locks
from ramet.backends.local.sources.vault import KeptSource, Vault
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import DATABASE, Connection
from ramet.backends.local.subscriptions import subscriber
from ramet.backends.local.subscriptions.publisher import Publisher, open_session, read_facts
from ramet.errors import Failed, Invalid, Unavailable
from ramet.model.passwords import Secret
from ramet.model.upstream import own_slot
from ramet.model.words import listed

_log = logging.getLogger(__name__)
_SOURCE, _END, _ENDED, _LOST_WAL = "source.json", "end", "ended.json", "lost_wal"
_ASK_SECONDS = 0.2
# Without a number: a step that waits is given up when what it says stays the same.
_FAILS = "The subscription fails again and again: the log of the service says why."
_HAS_FAILED = ". The subscription has failed: if this does not go on, the log of the service says why"
_NOT_COPIED = "Copying a table has failed, and is tried again: if it goes on failing, the log of the service says why."
_LARGER = "Follow it with a service of a larger size than shared, which has room for four times as many locks."
_FORK = "A fork of the service is independent, and has what was received."
_PREPARED, _SHOWN_NAMES = "Prepared transactions in the source have to be committed or rolled back there", 8
_NO_SLOT = (None, "lost")
_NO_CONNECTION = "08"  # the class of SQLSTATE in which CREATE SUBSCRIPTION says that the source cannot be reached
_SET_BACK = (
    "The source has lost WAL that this service had received: it was set back, or crashed without fsync. Commits that it"
    " has made since then may be missing here"
)
_FOLLOW_AGAIN = f"Follow the source with a new service. {_FORK}"
# A request waits for the first, whatever else is observed for the second, and a worker for the third.
_EXAMINE_SECONDS, _OBSERVE_SECONDS, _FINISH_SECONDS = 20.0, 10.0, 30.0


@dataclass(frozen=True)
class LocalSubscriptions:
    """Subscriptions, and what is kept for them beside the data directories."""

    instances: Instances
    vault: Vault

    def examine(self, source: SourceAddress, password: Secret) -> PublisherFacts:
        try:
            with open_session(source, password, _EXAMINE_SECONDS) as connection:
                return read_facts(connection)
        except UNREADABLE as error:
            raise Invalid("SOURCE_UNREADABLE", f"The source {source} could not be examined", words_of(error)) from error

    def publish(self, server: Server, source: SourceAddress, sealed: str) -> str | None:
        self._check_version(server)
        paths = self.instances.make_directories(server)
        self._keep(paths, KeptSource(source, sealed))
        try:
            with open_session(source, self.vault.unseal(sealed)) as connection:
                Publisher(connection, own_slot(server.service_id)).publish()
        except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable) as error:
            return f"Transactions that began before have to end in the source {source}: {words_of(error)}"
        except psycopg.OperationalError as error:
            if lacks_locks(error):
                raise Failed(
                    "NOT_PUBLISHED", f"The source {source} cannot lock all its tables at once", MORE_LOCKS
                ) from error
            raise _unreachable(source, error) from error
        except psycopg.Error as error:
            raise Failed("NOT_PUBLISHED", f"The source {source} could not be published", words_of(error)) from error
        return None

    def subscribe(self, server: Server) -> None:
        self._check_version(server)
        paths = self.instances.paths(server.service_id)
        kept = self._kept(paths)
        conninfo = connection_of(kept.source, directory_of(paths), server.service_id, kept.source.database)
        try:
            subscriber.create(paths, own_slot(server.service_id), conninfo)
        except psycopg.Error as error:
            if lacks_locks(error) and server.size.shared:
                message = f"The server cannot lock all tables of {kept.source} at once"
                raise Failed("NOT_SUBSCRIBED", message, _LARGER) from error
            if (error.sqlstate or "").startswith(_NO_CONNECTION):
                raise _unreachable(kept.source, error) from error
            raise Failed("NOT_SUBSCRIBED", f"The server cannot subscribe to {kept.source}", words_of(error)) from error

    def observe(self, server: Server) -> SubscriptionState:
        paths, name = self.instances.paths(server.service_id), own_slot(server.service_id)
        with connections.connect(paths, DATABASE) as connection:
            found, (tables, copied) = subscriber.state(connection, name), subscriber.copied(connection, name)
            known = subscriber.tables_of(connection, name)
        if found is None:
            return SubscriptionState(tables, copied, None, missing_subscription(name))
        kept = self._kept(paths)
        try:
            with open_session(kept.source, self.vault.unseal(kept.sealed), _OBSERVE_SECONDS) as source:
                publisher = Publisher(source, name)
                lag, status = publisher.lag()
                is_set_back = self._was_set_back(paths, publisher)
                missing = publisher.not_published() + publisher.not_received(known) if copied == tables else []
        except psycopg.Error as error:
            return SubscriptionState(
                tables, copied, None, f"The source {kept.source} cannot be reached: {words_of(error)}."
            )
        if status in _NO_SLOT:
            lost = f"The source has removed the WAL of the slot {name}: make the service again. {_FORK}"
            return SubscriptionState(tables, copied, None, lost)
        if is_set_back:
            return SubscriptionState(tables, copied, None, f"{_SET_BACK}. {_FOLLOW_AGAIN}")
        problem = unpublished_tables(missing) if missing else None
        if receives_nothing(paths):
            problem = NOT_RECEIVED
        elif found.copy_failed and copied < tables:
            problem = _NOT_COPIED
        elif found.apply_failed and not found.receives:
            problem = _FAILS
        return SubscriptionState(tables, copied, lag, problem)

    def finish(self, server: Server, promotion_id: str, timeout_seconds: float) -> Progress:
        paths, name = self.instances.paths(server.service_id), own_slot(server.service_id)
        directory = directory_of(paths)
        ended = directory / _ENDED
        if (directory / _SOURCE).exists():
            with connections.connect(paths, DATABASE) as connection:
                is_subscribed = subscriber.state(connection, name) is not None
            waits_for = self._finish(paths, promotion_id, timeout_seconds) if is_subscribed else None
            if waits_for is not None:
                return Progress(None, waits_for)
            left = self._remove(paths)
            facts = _facts_of(ended) | ({} if left is None else {"left_in_source": left})
            files.write(ended, msgspec.json.encode(facts), durable=True)
        if not ended.exists():
            return Progress({})
        for file in directory.iterdir():
            if file != ended:
                file.unlink()
        return Progress(_facts_of(ended))

    def _finish(self, paths: ServicePaths, promotion_id: str, timeout_seconds: float) -> str | None:
        """End the subscription when all is applied; return what that waits for, None when it has ended."""
        kept = self._kept(paths)
        try:
            with open_session(kept.source, self.vault.unseal(kept.sealed), _FINISH_SECONDS) as source:
                publisher = Publisher(source, own_slot(paths.service_id))
                self._check_slot(paths, publisher)
                if prepared := publisher.prepared_transactions():
                    return f"{_PREPARED}: {listed(prepared, _SHOWN_NAMES)}"
                end = self._end_of(paths, publisher, promotion_id)
                if not self._await(paths, publisher, end, timeout_seconds):
                    return self._left(paths, publisher, end)
                self._check_slot(paths, publisher)  # a source that was set back while it was awaited has confirmed all
                self._end(paths, publisher, end)
        except psycopg.OperationalError as error:
            raise _unreachable(kept.source, error, f". {_FORK}") from error
        return None

    def _end(self, paths: ServicePaths, publisher: Publisher, end: str) -> None:
        """Set the sequences, keep what is reported, and drop the subscription.

        Clients may use the sequences as soon as it is dropped, and the source may commit more: it is not asked again.
        """
        with connections.connect(paths, DATABASE) as connection:
            known = subscriber.tables_of(connection, publisher.name)
            missing = publisher.not_published() + publisher.not_received(known) + publisher.hidden_sequences()
            count = subscriber.set_sequences(connection, publisher.sequences())
            facts = {"end_lsn": end, "sequences": count, "not_replicated": missing}
            files.write(directory_of(paths) / _ENDED, msgspec.json.encode(facts), durable=True)
            subscriber.drop(connection, publisher.name)

    def detach(self, server: Server) -> None:
        paths, name = self.instances.paths(server.service_id), own_slot(server.service_id)
        with connections.connect(paths) as connection:
            if subscriber.state(connection, name) is None:
                return
        with connections.connect(paths, DATABASE) as connection:
            subscriber.drop(connection, name)

    def discard(self, service_id: str) -> str | None:
        paths = self.instances.paths(service_id)
        directory = directory_of(paths)
        if not (directory / _SOURCE).exists():
            shutil.rmtree(directory, ignore_errors=not directory.exists())
            return None
        with contextlib.suppress(psycopg.Error, Unavailable), connections.connect(paths, DATABASE) as connection:
            subscriber.drop(connection, own_slot(service_id))
        left = self._remove(paths)
        if left is None:
            shutil.rmtree(directory)
        return left

    def _remove(self, paths: ServicePaths) -> str | None:
        """Remove slot and publication from the source; return a warning when they stay."""
        kept, name = self._kept(paths), own_slot(paths.service_id)
        try:
            with open_session(kept.source, self.vault.unseal(kept.sealed)) as source:
                Publisher(source, name).remove()
        except Exception as error:  # noqa: BLE001 - whatever the source sends, its slot stays and the service goes on
            left = (
                f"The slot and the publication {name} stay in {kept.source}, and keep WAL there: {words_of(error)}."
                f" There: {removal(name)}."
            )
            _log.warning("service %s: %s", paths.service_id, left)
            return left
        return None

    def _check_slot(self, paths: ServicePaths, publisher: Publisher) -> None:
        """Raise Failed when the subscription can receive nothing more: no promotion may wait for the rest."""
        if publisher.lag()[1] in _NO_SLOT:
            message = f"The source has removed the WAL of the slot {publisher.name}, so its last changes cannot arrive"
            raise Failed("SLOT_LOST", message, _FORK)
        if self._was_set_back(paths, publisher):
            raise Failed("SOURCE_LOST_WAL", _SET_BACK, _FOLLOW_AGAIN)

    def _was_set_back(self, paths: ServicePaths, publisher: Publisher) -> bool:
        """Tell whether the source has lost WAL that was received. It is noted: later WAL hides it."""
        noted = directory_of(paths) / _LOST_WAL
        if not noted.exists() and publisher.has_lost_wal():
            files.write(noted, durable=True)
        return noted.exists()

    def _end_of(self, paths: ServicePaths, publisher: Publisher, promotion_id: str) -> str:
        """Return what a promotion waits for; that of an earlier one, which was given up, does not count."""
        file = directory_of(paths) / _END
        known_id, _, end = files.read(file).rpartition(" ")
        if known_id != promotion_id:
            end = publisher.position()
            files.write(file, f"{promotion_id} {end}", durable=True)
        return end

    def _await(self, paths: ServicePaths, publisher: Publisher, end: str, timeout_seconds: float) -> bool:
        """Wait until all tables are copied and all before `end` is applied."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            with connections.connect(paths, DATABASE) as connection:
                if self._is_over(connection, publisher, end):
                    return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_ASK_SECONDS)

    def _left(self, paths: ServicePaths, publisher: Publisher, end: str) -> str:
        """Say how far it is from `end`: the same text as long as nothing is applied, whatever the source writes."""
        if receives_nothing(paths):
            return NOT_RECEIVED
        with connections.connect(paths, DATABASE) as connection:
            found = subscriber.state(connection, publisher.name)
        has_failed = found is not None and found.apply_failed
        return f"{publisher.bytes_until(end)} bytes behind the source{_HAS_FAILED if has_failed else ''}"

    def _is_over(self, connection: Connection, publisher: Publisher, end: str) -> bool:
        tables, copied = subscriber.copied(connection, publisher.name)
        return tables == copied and publisher.has_confirmed(end)

    def _keep(self, paths: ServicePaths, kept: KeptSource) -> None:
        directory = directory_of(paths)
        self.instances.account.make_directory(directory)
        write_password(directory, self.vault.unseal(kept.sealed).reveal())
        if kept.source.root_certificate is not None:
            files.write(directory / ROOT_CERTIFICATE, kept.source.root_certificate, durable=True)
        files.write(directory / _SOURCE, msgspec.json.encode(kept), durable=True)

    def _kept(self, paths: ServicePaths) -> KeptSource:
        try:
            return msgspec.json.decode(files.read_bytes(directory_of(paths) / _SOURCE), type=KeptSource)
        except FileNotFoundError as error:
            raise Failed("NOT_FOLLOWING", f"Service {paths.service_id} subscribes to no source") from error

    def _check_version(self, server: Server) -> None:
        if server.pg_major < subscriber.OLDEST_MAJOR:
            raise Failed(
                "VERSION_TOO_OLD",
                f"A service with PostgreSQL {server.pg_major} cannot follow a source by a subscription",
                f"Install PostgreSQL {subscriber.OLDEST_MAJOR} or later on this host.",
            )


def directory_of(paths: ServicePaths) -> Path:
    """Return where the source of a service is kept, outside of its data directory."""
    return paths.root / "subscription"


def _facts_of(ended: Path) -> dict[str, Any]:
    return msgspec.json.decode(files.read_bytes(ended), type=dict[str, Any]) if ended.exists() else {}


def _unreachable(source: SourceAddress, error: psycopg.Error, remedy: str = "") -> Unavailable:
    return Unavailable(SOURCE_UNREACHABLE, f"The source {source} cannot be reached", words_of(error) + remedy)
