"""Restores in place: restore, reset, checkpoint and rewind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ramet.api import schemas
from ramet.client.connection import Connection, given
from ramet.client.errors import TimedOut
from ramet.client.polling import poll_end
from ramet.model.fork import ForkStrategy


class RestoresInPlace(Connection):
    """The operations on restores in place."""

    def restore_service(
        self,
        service_id: str,
        *,
        target_time: str | None = None,
        snapshot: str | None = None,
        from_service_id: str | None = None,
        keep_previous: bool = True,
        confirm: str | None = None,
        idempotency_key: str | None = None,
    ) -> schemas.restores.Restore:
        """Give a service the data of a time, of a snapshot, or of another service, at its own endpoint.

        `confirm` is the name of the service, which a PROD service needs. The state before is kept, as a paused service,
        unless `keep_previous` is False.
        """
        body = given(target_time=target_time, snapshot=snapshot, from_service_id=from_service_id, confirm=confirm)
        body["keep_previous"] = keep_previous
        return self._replace(service_id, "restores", body, idempotency_key)

    def reset_service(
        self,
        service_id: str,
        strategy: ForkStrategy = ForkStrategy.NOW,
        *,
        target_time: str | None = None,
        keep_previous: bool = False,
        confirm: str | None = None,
        idempotency_key: str | None = None,
    ) -> schemas.restores.Restore:
        """Make a fork a fresh copy of its parent, at its own endpoint."""
        body = given(fork_strategy=strategy, target_time=target_time, confirm=confirm)
        body["keep_previous"] = keep_previous
        return self._replace(service_id, "reset", body, idempotency_key)

    def create_checkpoint(self, service_id: str, name: str) -> schemas.restore.Snapshot:
        """Request a snapshot that the service can be rewound to; it becomes AVAILABLE shortly after."""
        return self.call("POST", self.path(service_id, "checkpoints"), schemas.restore.Snapshot, {"name": name})

    def rewind_service(
        self,
        service_id: str,
        name: str,
        *,
        keep_previous: bool = False,
        confirm: str | None = None,
        idempotency_key: str | None = None,
    ) -> schemas.restores.Restore:
        """Return a service to its newest checkpoint with that name."""
        body = given(name=name, confirm=confirm)
        body["keep_previous"] = keep_previous
        return self._replace(service_id, "rewind", body, idempotency_key)

    def _replace(
        self, service_id: str, verb: str, body: Mapping[str, object], idempotency_key: str | None
    ) -> schemas.restores.Restore:
        path, seen_by = self.path(service_id, verb), f"service restores {service_id}"
        return self.make(path, schemas.restores.Restore, body, idempotency_key, seen_by)

    def list_restores(self, service_id: str) -> schemas.restores.Restores:
        """Return the restores in place of a service, newest first."""
        return self.call("GET", self.path(service_id, "restores"), schemas.restores.Restores)

    def get_restore(self, service_id: str, restore_id: str) -> schemas.restores.Restore:
        """Return how far a restore in place is."""
        return self.call("GET", self.path(service_id, "restores", restore_id), schemas.restores.Restore)

    def wait_restored(
        self,
        service_id: str,
        restore_id: str,
        timeout_seconds: float = 3600.0,
        seen: Callable[[schemas.restores.Restore], None] = lambda _: None,
    ) -> schemas.restores.Restore:
        """Wait until a restore in place is over, well or not. Raises TimedOut; `seen` gets each response."""
        ask = partial(self.get_restore, service_id, restore_id)
        message = f"Restore {restore_id} is not over after {timeout_seconds:g} s"
        remedy = "See the operations of the service."
        return poll_end(ask, timeout_seconds, seen, lambda: TimedOut("WAIT_TIMED_OUT", message, remedy))
