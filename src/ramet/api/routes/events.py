"""Events of a project: pages of them, and a stream of server-sent events."""

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Annotated, Any, cast

import msgspec
from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, QueryParameter, SkipValidation
from litestar.response import ServerSentEvent
from litestar.response.sse import ServerSentEventMessage

from ramet.api.auth import credentials
from ramet.api.parameters import Cursor, Limit, ProjectId
from ramet.api.responses import OF_PROJECT, PlaneDependency, ProjectVerbs, answer, read_in_thread, router_of
from ramet.api.schemas.events import Event, Events
from ramet.control.slots import stream_of
from ramet.errors import Invalid
from ramet.events import stream
from ramet.events.stream import EventFeed
from ramet.model import events as model
from ramet.model.cursor import PAGE, sequence_number

EventFeedDependency = NamedDependency[SkipValidation[EventFeed]]
_STREAM = "text/event-stream"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
TypeFilter = Annotated[
    str | None,
    QueryParameter(
        name="type", required=False, description="The type, such as service.ready.", schema_extra={"maxLength": 64}
    ),
]
ServiceFilter = Annotated[
    str | None,
    QueryParameter(
        name="service_id", required=False, description="Only events about a service.", schema_extra={"maxLength": 64}
    ),
]
LastEventId = Annotated[
    str | None,
    HeaderParameter(
        name="Last-Event-ID",
        required=False,
        description="Of a stream: begin after the event with this id; without it, with those that happen from now on.",
        schema_extra={"pattern": "^[0-9]{1,18}$"},
    ),
]


@read_in_thread("/events", operation_id="getEvents", summary="List or stream the events of a project")
def list_events(
    request: Request[Any, Any, Any],
    plane: PlaneDependency,
    projects: ProjectVerbs,
    event_feed: EventFeedDependency,
    project_id: ProjectId,
    limit: Limit = PAGE,
    cursor: Cursor = None,
    type_: TypeFilter = None,
    service_id: ServiceFilter = None,
    last_event_id: LastEventId = None,
) -> Response[Events]:
    """The events of the project, newest first. With `Accept: text/event-stream` they are streamed as they happen."""
    wanted = stream.filter_of(project_id, type_, service_id)
    if _STREAM in request.headers.get("accept", ""):
        is_open = partial(projects.is_opened_by, *credentials(request.headers["authorization"]))
        messages = stream_of(plane.held, project_id, _messages(event_feed, is_open, wanted, _number(last_event_id)))
        return cast("Response[Events]", ServerSentEvent(messages, headers=_HEADERS))
    page = stream.list_events(plane, wanted, limit, cursor)
    return answer(Events([_shape(event) for event in page.items], page.cursor))


async def _messages(
    feed: EventFeed, is_open: Callable[[], bool], wanted: model.EventFilter, after: int | None
) -> AsyncGenerator[ServerSentEventMessage, None]:
    """Yield a message for each event as long as the credentials are valid, and now and then one with an id only.

    The latter come at the beginning, too: a client whose connection is lost before the first event misses none.
    """
    async for event in stream.follow(feed, wanted, after, is_open):
        if isinstance(event, int):
            yield ServerSentEventMessage(None, comment="keep-alive", id=event)
        else:
            data = msgspec.json.encode(_shape(event)).decode()
            yield ServerSentEventMessage(data, event=event.type.value, id=event.sequence)


def _number(last_event_id: str | None) -> int | None:
    try:
        return None if last_event_id is None else sequence_number(last_event_id)
    except ValueError as error:
        message = f"Last-Event-ID must be the id of an event (got {last_event_id!r:.60})"
        raise Invalid("INVALID_LAST_EVENT_ID", message, "Leave it out to get the events from now on.") from error


def _shape(event: model.Event) -> Event:
    return Event(event.sequence, event.type, event.at, dict(event.data), event.service_id)


events_router = router_of(__name__, "Events", OF_PROJECT)
