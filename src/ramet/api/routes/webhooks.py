"""Webhooks of a project, and the deliveries to them."""

from typing import Annotated

from litestar import Response
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import UNSET

from ramet.api.parameters import Cursor, Limit, ProjectId, Repeatable, RotationKey, checked_key
from ramet.api.responses import (
    OF_PROJECT,
    PlaneDependency,
    answer,
    change,
    create,
    empty,
    read_in_thread,
    remove,
    router_of,
    update,
)
from ramet.api.schemas.events import (
    Deliveries,
    Delivery,
    Redelivered,
    Redelivery,
    Webhook,
    WebhookCreate,
    WebhookRotation,
    WebhookUpdate,
)
from ramet.events import webhooks
from ramet.model import events as model
from ramet.model.cursor import PAGE
from ramet.model.events import OVERLAP_SECONDS, DeliveryStatus

WebhookId = Annotated[
    str, PathParameter(description="Identifier of the webhook.", schema_extra={"pattern": "^[a-z0-9]{10}$"})
]
StatusFilter = Annotated[
    str | None,
    QueryParameter(
        name="status",
        required=False,
        description="Only deliveries with this status.",
        schema_extra={"enum": list(DeliveryStatus)},
    ),
]


@read_in_thread("/webhooks", operation_id="getWebhooks", summary="List the webhooks of a project")
def list_webhooks(plane: PlaneDependency, project_id: ProjectId) -> Response[list[Webhook]]:
    """The webhooks, oldest first, without their secrets."""
    return answer([_shape(each) for each in webhooks.list_webhooks(plane, project_id)])


@create("/webhooks", operation_id="createWebhook", summary="Create a webhook")
def create_webhook(plane: PlaneDependency, project_id: ProjectId, data: JSONBody[WebhookCreate]) -> Response[Webhook]:
    """Deliver events of the project to a URL from now on. Keep the secret of the response: it verifies signatures."""
    made = webhooks.create_webhook(plane, project_id, data.url, data.types or (), data.description or "")
    return answer(_shape(made, secret=made.secret.reveal()), 201)


@read_in_thread("/webhooks/{webhook_id:str}", operation_id="getWebhook", summary="Get a webhook")
def get_webhook(plane: PlaneDependency, project_id: ProjectId, webhook_id: WebhookId) -> Response[Webhook]:
    """One webhook, without its secret."""
    return answer(_shape(webhooks.get_webhook(plane, project_id, webhook_id)))


@update("/webhooks/{webhook_id:str}", operation_id="updateWebhook", summary="Change a webhook")
def update_webhook(
    plane: PlaneDependency, project_id: ProjectId, webhook_id: WebhookId, data: JSONBody[WebhookUpdate]
) -> Response[Webhook]:
    """Change what is sent; enable a webhook that was disabled."""
    changed = webhooks.update_webhook(
        plane,
        project_id,
        webhook_id,
        url=None if data.url is UNSET else data.url,
        types=None if data.types is UNSET else data.types,
        description=None if data.description is UNSET else data.description,
        enabled=data.enabled,
    )
    return answer(_shape(changed))


@remove("/webhooks/{webhook_id:str}", operation_id="deleteWebhook", summary="Delete a webhook")
def delete_webhook(plane: PlaneDependency, project_id: ProjectId, webhook_id: WebhookId) -> Response[None]:
    """Deliver nothing more to the webhook, and forget its deliveries."""
    webhooks.delete_webhook(plane, project_id, webhook_id)
    return empty(204)


@change("/webhooks/{webhook_id:str}/test", operation_id="testWebhook", summary="Send a test to a webhook")
def test_webhook(plane: PlaneDependency, project_id: ProjectId, webhook_id: WebhookId) -> Response[Delivery]:
    """Deliver an event of the type webhook.test; look at the deliveries for what came of it."""
    return answer(_delivery_shape(webhooks.send_test(plane, project_id, webhook_id)))


@change(
    "/webhooks/{webhook_id:str}/rotateSecret",
    operation_id="rotateWebhookSecret",
    summary="Give a webhook a new secret",
)
def rotate_secret(
    plane: PlaneDependency,
    project_id: ProjectId,
    webhook_id: WebhookId,
    data: JSONBody[WebhookRotation],
    idempotency_key: RotationKey = None,
    repeatable: Repeatable = False,
) -> Response[Webhook]:
    """Make a new secret. For a while deliveries have a signature with each of the two."""
    overlap = OVERLAP_SECONDS if data.overlap_seconds is None else data.overlap_seconds
    key = checked_key(idempotency_key)
    made = webhooks.rotate_secret(plane, project_id, webhook_id, overlap, idempotency_key=key)
    return answer(_shape(made, secret=made.secret.reveal()))


@read_in_thread(
    "/webhooks/{webhook_id:str}/deliveries",
    operation_id="getWebhookDeliveries",
    summary="List the deliveries to a webhook",
)
def list_deliveries(
    plane: PlaneDependency,
    project_id: ProjectId,
    webhook_id: WebhookId,
    limit: Limit = PAGE,
    cursor: Cursor = None,
    status: StatusFilter = None,
) -> Response[Deliveries]:
    """The deliveries, newest first: those that succeeded, failed, and will be tried again."""
    page = webhooks.list_deliveries(plane, project_id, webhook_id, limit, cursor, status)
    return answer(Deliveries([_delivery_shape(each) for each in page.items], page.cursor))


@change("/webhooks/{webhook_id:str}/redeliver", operation_id="redeliverWebhook", summary="Deliver to a webhook again")
def redeliver(
    plane: PlaneDependency, project_id: ProjectId, webhook_id: WebhookId, data: JSONBody[Redelivery]
) -> Response[Redelivered]:
    """Make one delivery again, or all that failed."""
    return answer(Redelivered(webhooks.redeliver(plane, project_id, webhook_id, data.delivery_id)))


def _shape(webhook: model.Webhook, secret: str | None = None) -> Webhook:
    return Webhook(
        id=webhook.id,
        url=webhook.url,
        types=list(webhook.types),
        enabled=webhook.enabled,
        created=webhook.created_at,
        description=webhook.description,
        disabled_reason=webhook.disabled_reason,
        failing_since=webhook.failing_since,
        previous_secret_until=webhook.previous_until,
        secret=secret,
    )


def _delivery_shape(delivery: model.Delivery) -> Delivery:
    return Delivery(
        id=delivery.id,
        event_id=delivery.event_sequence,
        type=delivery.event_type,
        status=delivery.status,
        attempts=delivery.attempts,
        created=delivery.created_at,
        next_attempt=delivery.next_at,
        finished=delivery.finished_at,
        response_status=delivery.response_status,
        error=delivery.error,
    )


webhooks_router = router_of(__name__, "Events", OF_PROJECT)
