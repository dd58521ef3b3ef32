"""The events of the project, and the webhooks that deliver them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from litestar import Response, post
from litestar.params import FromPath, FromQuery

from ramet import acting
from ramet.console.context import CurrentSession, Fields, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.rendering import page, redirect
from ramet.console.views.forms import Form, refused
from ramet.errors import Error, NotFound
from ramet.events import stream, webhooks
from ramet.model.events import EventType, Webhook
from ramet.model.secret_marks import mark_of

_PATH = "/console/webhooks"
_EMPTY = Form({})
_SHOWN_DELIVERIES = 20


_ACTIONS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "test": ("testWebhook", webhooks.send_test),
    "enable": ("updateWebhook", partial(webhooks.update_webhook, enabled=True)),
    "disable": ("updateWebhook", partial(webhooks.update_webhook, enabled=False)),
    "redeliver": ("redeliverWebhook", webhooks.redeliver),
    "rotate": ("rotateWebhookSecret", webhooks.rotate_secret),
    "delete": ("deleteWebhook", webhooks.delete_webhook),
}


@read("/webhooks", operation="getEvents", sync_to_thread=True)
def webhooks_page(session: SignedIn, cursor: FromQuery[str] = "") -> Response[str]:
    """Show the webhooks, and the newest events or those before `cursor`."""
    return _page(session, _EMPTY, cursor)


@post("/webhooks", sync_to_thread=True, status_code=200, operation="createWebhook")
def create(session: SignedIn, fields: Fields) -> Response[str] | Response[None]:
    """Create a webhook, and show its secret once."""
    types = [one.value for one in EventType if fields.get(one.value) == "yes"]
    try:
        made = webhooks.create_webhook(
            session.plane, session.project_id, fields.get("url", ""), types, fields.get("description", "")
        )
    except Error as error:
        return _page(session, refused(fields, error), status_code=form_status(error))
    return _page(session, _EMPTY, made=made)


@read("/webhooks/{webhook_id:str}", operation="getWebhook", sync_to_thread=True)
def webhook_page(session: SignedIn, webhook_id: FromPath[str]) -> Response[str]:
    """Show a webhook with its newest deliveries."""
    return _webhook_page(session, webhooks.get_webhook(session.plane, session.project_id, webhook_id))


@post("/webhooks/{webhook_id:str}/{action:str}", sync_to_thread=True, status_code=200, operation="getWebhook")
def act(
    session: SignedIn, fields: Fields, webhook_id: FromPath[str], action: FromPath[str]
) -> Response[str] | Response[None]:
    """Do something with a webhook."""
    if action not in _ACTIONS:
        raise NotFound("NOT_FOUND", "There is no page at this address", "Go back to the events.")
    verb, function = _ACTIONS[action]
    session.demand(verb)
    acting.note(verb=verb)
    if action == "rotate":
        done = function(session.plane, session.project_id, webhook_id, mark=fields.get("mark", ""))
        return _webhook_page(session, done, secret=done.secret.reveal())
    function(session.plane, session.project_id, webhook_id)
    return redirect(_PATH if action == "delete" else f"{_PATH}/{webhook_id}")


def _page(
    session: CurrentSession, form: Form, cursor: str = "", *, made: Webhook | None = None, status_code: int = 200
) -> Response[str]:
    plane, project_id = session.plane, session.project_id
    found = stream.list_events(plane, stream.filter_of(project_id), cursor=cursor or None)
    return page(
        "webhooks.html",
        session,
        webhooks=webhooks.list_webhooks(plane, project_id) if session.may("getWebhooks") else [],
        events=found.items,
        older=found.cursor,
        is_first=not cursor,
        types=[one.value for one in EventType if one is not EventType.WEBHOOK_TEST],
        form=form,
        made=made,
        secret=None if made is None else made.secret.reveal(),
        status_code=status_code,
    )


def _webhook_page(session: CurrentSession, webhook: Webhook, secret: str | None = None) -> Response[str]:
    found = webhooks.list_deliveries(session.plane, session.project_id, webhook.id, _SHOWN_DELIVERIES)
    mark = mark_of(webhook.secret.reveal())
    return page("webhook.html", session, webhook=webhook, deliveries=found.items, secret=secret, mark=mark)
