"""Upgrades to another major version of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ramet.api import schemas
from ramet.client.connection import Connection
from ramet.client.errors import TimedOut
from ramet.client.polling import poll_end


class MajorUpgrades(Connection):
    """The operations on upgrades."""

    def upgrade_service(
        self,
        service_id: str,
        to_version: int,
        *,
        trial: bool = False,
        keep_fork: bool = False,
        idempotency_key: str | None = None,
    ) -> schemas.upgrades.Upgrade:
        """Ask for the upgrade of a service, or its `trial` alone, on a fork that may be kept."""
        body = {"to_version": to_version, "trial": trial, "keep_fork": keep_fork}
        path, seen_by = self.path(service_id, "upgrades"), f"service upgrades {service_id}"
        return self.make(path, schemas.upgrades.Upgrade, body, idempotency_key, seen_by)

    def list_upgrades(self, service_id: str) -> schemas.upgrades.Upgrades:
        """Return the upgrades that were tried of a service, newest first."""
        return self.call("GET", self.path(service_id, "upgrades"), schemas.upgrades.Upgrades)

    def get_upgrade(self, service_id: str, upgrade_id: str) -> schemas.upgrades.Upgrade:
        """Return how far an upgrade is, and its report."""
        return self.call("GET", self.path(service_id, "upgrades", upgrade_id), schemas.upgrades.Upgrade)

    def wait_upgraded(
        self,
        service_id: str,
        upgrade_id: str,
        timeout_seconds: float = 86_400.0,
        seen: Callable[[schemas.upgrades.Upgrade], None] = lambda _: None,
    ) -> schemas.upgrades.Upgrade:
        """Wait until an upgrade is over, well or not. Raises TimedOut; `seen` gets each response."""
        ask = partial(self.get_upgrade, service_id, upgrade_id)
        message = f"Upgrade {upgrade_id} is not over after {timeout_seconds:g} s"
        return poll_end(ask, timeout_seconds, seen, lambda: TimedOut("WAIT_TIMED_OUT", message, "It continues."))
