"""Notifications: what happened since somebody looked, and what ends soon."""

from litestar import Response
from litestar.params import FromQuery

from ramet.console.auth.cookies import mark_seen
from ramet.console.context import AnyRequest, CurrentSession, SignedIn, read
from ramet.console.rendering import page
from ramet.console.views.notices import NOTICED, ends_soon, notice_of
from ramet.events.stream import newest_of
from ramet.model.keys import ApiKey

_SHOWN = 100


@read("/notifications", operation="getEvents", sync_to_thread=True)
def notifications_page(request: AnyRequest, session: SignedIn, since: FromQuery[int | None] = None) -> Response[str]:
    """Show what happened, newest first, and remember that it was looked at.

    `since` is the number of the event up to which it was looked at before the page was opened.
    """
    seen = since if since is not None else session.seen or 0
    found = newest_of(session.plane, session.project_id, NOTICED, _SHOWN)
    answer = page(
        "notifications.html",
        session,
        notices=[notice_of(event, seen) for event in found],
        ending=ends_soon(session.plane.backend.authority, _keys(session), session.plane.clock()),
        since=seen,
    )
    if found:
        mark_seen(request, answer, session.project_id, found[0].sequence)
    return answer


@read("/notifications/count", operation="getEvents", sync_to_thread=True)
def count(session: SignedIn) -> Response[str]:
    """Return the part of the header that counts what is new, with the newest notice for the browser's own."""
    newest = newest_of(session.plane, session.project_id, NOTICED, 1)
    return page("bell.html", session, newest=notice_of(newest[0], 0) if newest else None)


def _keys(session: CurrentSession) -> list[ApiKey]:
    """Return the keys whose end concerns the session: an administrator sees to those of the project."""
    if not session.may("getKeys"):
        return [session.key]
    return session.context.projects.list_keys(session.project_id)
