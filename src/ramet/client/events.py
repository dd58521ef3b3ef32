"""Events of a project, and the webhooks that deliver them."""

from __future__ import annotations

from collections.abc import Sequence

from ramet.api import schemas
from ramet.client.connection import Connection, given, query_of


class EventsAndWebhooks(Connection):
    """What happened, and where it is delivered."""

    def list_events(self, **query: str) -> schemas.events.Events:
        """Return a page of events, newest first; `query` may contain limit, cursor, type and service_id."""
        return self.call("GET", self.project_path("events") + query_of(query), schemas.events.Events)

    def list_webhooks(self) -> list[schemas.events.Webhook]:
        """Return the webhooks of the project, oldest first."""
        return self.call("GET", self.project_path("webhooks"), list[schemas.events.Webhook])

    def create_webhook(self, url: str, types: Sequence[str] = (), description: str = "") -> schemas.events.Webhook:
        """Deliver events to a URL; only this returns the secret that verifies signatures."""
        body = {"url": url, "types": list(types), "description": description}
        return self.call("POST", self.project_path("webhooks"), schemas.events.Webhook, body)

    def get_webhook(self, webhook_id: str) -> schemas.events.Webhook:
        """Return a webhook."""
        return self.call("GET", self.project_path("webhooks", webhook_id), schemas.events.Webhook)

    def update_webhook(self, webhook_id: str, **changes: object) -> schemas.events.Webhook:
        """Change url, types, description or enabled."""
        return self.call("PUT", self.project_path("webhooks", webhook_id), schemas.events.Webhook, changes)

    def delete_webhook(self, webhook_id: str) -> None:
        """Delete a webhook with its deliveries."""
        self.send("DELETE", self.project_path("webhooks", webhook_id))

    def test_webhook(self, webhook_id: str) -> schemas.events.Delivery:
        """Deliver an event of the type webhook.test."""
        return self.call("POST", self.project_path("webhooks", webhook_id, "test"), schemas.events.Delivery)

    def rotate_webhook_secret(self, webhook_id: str, overlap_seconds: int | None = None) -> schemas.events.Webhook:
        """Give a webhook a new secret; during the overlap deliveries have both signatures."""
        path, body = self.project_path("webhooks", webhook_id, "rotateSecret"), given(overlap_seconds=overlap_seconds)
        return self.rotate(path, schemas.events.Webhook, body)

    def list_deliveries(self, webhook_id: str, **query: str) -> schemas.events.Deliveries:
        """Return a page of deliveries, newest first; `query` may contain limit, cursor and status."""
        return self.call(
            "GET", self.project_path("webhooks", webhook_id, "deliveries") + query_of(query), schemas.events.Deliveries
        )

    def redeliver(self, webhook_id: str, delivery_id: str | None = None) -> schemas.events.Redelivered:
        """Make a delivery again, or all that failed."""
        body = given(delivery_id=delivery_id)
        return self.call(
            "POST", self.project_path("webhooks", webhook_id, "redeliver"), schemas.events.Redelivered, body
        )
