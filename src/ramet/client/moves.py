"""Moves of services to another Ramet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ramet.api import schemas
from ramet.client.connection import Connection, given
from ramet.client.errors import TimedOut
from ramet.client.polling import poll_end
from ramet.model.secret import Secret


class MovesElsewhere(Connection):
    """The operations on moves."""

    def move_service(
        self,
        service_id: str,
        to_url: str,
        public_key: str,
        secret_key: Secret,
        *,
        certificate_authority: str | None = None,
        name: str | None = None,
        confirm: str | None = None,
    ) -> schemas.moves.Move:
        """Ask for the move of a service to another Ramet, with the key of an ADMIN there."""
        body = {
            "to_url": to_url,
            "public_key": public_key,
            "secret_key": secret_key.reveal(),
            **given(certificate_authority=certificate_authority, name=name, confirm=confirm),
        }
        return self.call("POST", self.path(service_id, "moves"), schemas.moves.Move, body)

    def list_moves(self, service_id: str) -> schemas.moves.Moves:
        """Return the moves of a service, newest first."""
        return self.call("GET", self.path(service_id, "moves"), schemas.moves.Moves)

    def get_move(self, service_id: str, move_id: str) -> schemas.moves.Move:
        """Return how far a move is, and where the service is afterwards."""
        return self.call("GET", self.path(service_id, "moves", move_id), schemas.moves.Move)

    def cancel_move(self, service_id: str, move_id: str, *, target_is_lost: bool = False) -> schemas.moves.Move:
        """Call a move off; `target_is_lost`: the other Ramet does not answer, and will never open the service."""
        body = {"target_is_lost": target_is_lost}
        return self.call("POST", self.path(service_id, "moves", move_id, "cancel"), schemas.moves.Move, body)

    def wait_moved(
        self,
        service_id: str,
        move_id: str,
        timeout_seconds: float = 86_400.0,
        seen: Callable[[schemas.moves.Move], None] = lambda _: None,
    ) -> schemas.moves.Move:
        """Wait until a move is over, well or not. Raises TimedOut; `seen` gets each response."""
        ask = partial(self.get_move, service_id, move_id)
        message = f"Move {move_id} is not over after {timeout_seconds:g} s"
        return poll_end(ask, timeout_seconds, seen, lambda: TimedOut("WAIT_TIMED_OUT", message, "It continues."))
