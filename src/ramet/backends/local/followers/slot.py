"""The physical replication slot that a service has for itself in its source.

What is needed to drop it is kept beside the password, because nothing else may know of the service by then.
"""

import contextlib
import logging
from pathlib import Path

import msgspec
import psycopg

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.host import files
from ramet.backends.local.sources.sources import words_of
from ramet.backends.local.sources.vault import Vault
from ramet.backends.local.sql.connections import Connection
from ramet.backends.local.subscriptions.publisher import open_session
from ramet.errors import Failed
from ramet.machine.waiting import wait_until
from ramet.model.upstream import Upstream, own_slot

_KEPT = "slot.json"
_END_SECONDS, _PAUSE_SECONDS = 15.0, 0.1
_FIND = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s"
_log = logging.getLogger(__name__)


class _Kept(msgspec.Struct, frozen=True):
    """Where the slot is; the password is sealed."""

    source: SourceAddress
    sealed: str


def make(directory: Path, vault: Vault, service_id: str, upstream: Upstream, sealed: str) -> None:
    """Make the slot, which retains WAL from now on, unless it exists. Raises Failed with the source's reason."""
    kept = _Kept(SourceAddress.of(upstream), sealed)
    files.write(directory / _KEPT, msgspec.json.encode(kept), durable=True)
    _make(kept, vault, own_slot(service_id))


def renew(directory: Path, vault: Vault, service_id: str) -> None:
    """Make the slot again, if there is one: what it retained is not needed any more. Raises Failed."""
    kept = _read(directory)
    if kept is not None:
        _make(kept, vault, own_slot(service_id), again=True)


def drop(directory: Path, vault: Vault, service_id: str) -> str | None:
    """Drop the slot, if there is one; return a warning when it stays."""
    kept, name = _read(directory), own_slot(service_id)
    if kept is None:
        return None
    try:
        with open_session(kept.source, vault.unseal(kept.sealed)) as connection:
            if not wait_until(lambda: _is_dropped(connection, name), _END_SECONDS, _PAUSE_SECONDS):
                raise psycopg.errors.ObjectInUse(f"the slot {name} is still in use")
    except Exception as error:  # noqa: BLE001 - whatever the source sends, its slot stays and the service goes
        left = (
            f"The replication slot {name} stays in {kept.source}, and keeps WAL there: {words_of(error)}."
            f" There: SELECT pg_drop_replication_slot('{name}')."
        )
        _log.warning("service %s: %s", service_id, left)
        return left
    return None


def _make(kept: _Kept, vault: Vault, name: str, *, again: bool = False) -> None:
    try:
        with open_session(kept.source, vault.unseal(kept.sealed)) as connection:
            if again and not wait_until(lambda: _is_dropped(connection, name), _END_SECONDS, _PAUSE_SECONDS):
                raise psycopg.errors.ObjectInUse(f"the slot {name} is still in use")
            if connection.execute(_FIND, (name,)).fetchone() is None:
                connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", (name,))
    except psycopg.Error as error:
        message = f"The replication slot {name} could not be made in {kept.source}"
        raise Failed("SLOT_NOT_MADE", message, words_of(error)) from error


def _is_dropped(connection: Connection, name: str) -> bool:
    """Drop the slot, or end the session that uses it; a standby that lives may be back before the drop."""
    row = connection.execute(_FIND, (name,)).fetchone()
    if row is None:
        return True
    if row[0] is not None:
        connection.execute("SELECT pg_terminate_backend(%s)", (row[0],))
    with contextlib.suppress(psycopg.errors.ObjectInUse):
        connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
        return True
    return False


def _read(directory: Path) -> _Kept | None:
    try:
        return msgspec.json.decode((directory / _KEPT).read_bytes(), type=_Kept)
    except FileNotFoundError:
        return None
