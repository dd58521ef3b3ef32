"""Webhooks as a client of the interface makes and reads them."""

from typing import Any

from ramet.endpoints import BASE_PATH
from tests.api.world import World
from tests.events.conftest import Receiver


def webhook_path(world: World, *parts: str) -> str:
    return "/".join((f"{BASE_PATH}/projects/{world.tenant.project.id}/webhooks", *parts))


def created(world: World, receiver: Receiver, **fields: object) -> dict[str, Any]:
    answer = world.post(webhook_path(world), {"url": receiver.url, **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def deliveries_of(world: World, webhook: dict[str, Any], query: str = "") -> list[dict[str, Any]]:
    return list(world.get(webhook_path(world, webhook["id"], f"deliveries{query}")).json()["deliveries"])


def updated(world: World, webhook: dict[str, Any], **fields: object) -> dict[str, Any]:
    answer = world.client.put(webhook_path(world, webhook["id"]), auth=world.tenant.credentials, json=fields)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
