"""The physical replication slot that a service has for itself in its source.

What is needed to drop it is kept beside the password, because nothing else may know of the service by then.
"""

import logging
from pathlib import Path

import msgspec
import psycopg

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.host import files
from ramet.backends.local.sources.sources import words_of
from ramet.backends.local.sources.vault import KeptSource, Vault
from ramet.backends.local.subscriptions.publisher import FIND_SLOT, drop_slot, open_session
from ramet.errors import Failed
from ramet.model.upstream import Upstream, own_slot

_KEPT = "slot.json"
_log = logging.getLogger(__name__)


def make(directory: Path, vault: Vault, service_id: str, upstream: Upstream, sealed: str) -> None:
    """Make the slot, which retains WAL from now on, unless it exists. Raises Failed with the source's reason."""
    kept = KeptSource(SourceAddress.of(upstream), sealed)
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
            drop_slot(connection, name)
    except Exception as error:  # noqa: BLE001 - whatever the source sends, its slot stays and the service goes
        left = (
            f"The replication slot {name} stays in {kept.source}, and keeps WAL there: {words_of(error)}."
            f" There: SELECT pg_drop_replication_slot('{name}')."
        )
        _log.warning("service %s: %s", service_id, left)
        return left
    return None


def _make(kept: KeptSource, vault: Vault, name: str, *, again: bool = False) -> None:
    try:
        with open_session(kept.source, vault.unseal(kept.sealed)) as connection:
            if again:
                drop_slot(connection, name)
            if connection.execute(FIND_SLOT, (name,)).fetchone() is None:
                connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", (name,))
    except psycopg.Error as error:
        message = f"The replication slot {name} could not be made in {kept.source}"
        raise Failed("SLOT_NOT_MADE", message, words_of(error)) from error


def _read(directory: Path) -> KeptSource | None:
    try:
        return msgspec.json.decode(files.read_bytes(directory / _KEPT), type=KeptSource)
    except FileNotFoundError:
        return None
