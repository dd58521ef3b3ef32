"""Following a database: the form, and the report of what following it would do."""

from collections.abc import Mapping

from litestar import Response, post
from litestar.params import FromQuery

from ramet.console.context import CurrentSession, Fields, SignedIn, read
from ramet.console.pages.source_form import SourceForm, source_of
from ramet.console.views.forms import values_of
from ramet.control.services import get_service_including_deleted
from ramet.errors import NotFound
from ramet.followers.verbs import FollowRequest, follow_service, plan_follow
from ramet.imports.source_url import source_url
from ramet.model.upstream import FollowMethod


def _request(values: Mapping[str, str]) -> FollowRequest:
    return FollowRequest(
        **source_of(values),
        method=FollowMethod.LOGICAL if values.get("method") == "LOGICAL" else FollowMethod.PHYSICAL,
        creates_slot=values.get("slot") == "own",
        archive=values.get("archive") or None,
    )


_FORM = SourceForm("service_follow.html", _request, plan_follow, follow_service)


@read("/follow", operation="followDatabase", sync_to_thread=True)
def follow_page(session: SignedIn, again: FromQuery[str] = "") -> Response[str]:
    """Show the form; with the values of a service that could not be made and is to be made again."""
    values = {"size": "shared", "method": "PHYSICAL", "slot": "none"} if not again else _values_again(session, again)
    return _FORM.show(session, values)


@post("/follow", operation="followDatabase", sync_to_thread=True, status_code=200)
def follow_database(session: SignedIn, fields: Fields) -> Response[str] | Response[None]:
    """Examine a source, or follow it."""
    return _FORM.submit(session, fields)


def _values_again(session: CurrentSession, service_id: str) -> dict[str, str]:
    service = get_service_including_deleted(session.plane, session.project_id, service_id)
    upstream = service.upstream
    if upstream is None:
        raise NotFound("NOT_FOLLOWING", f"Service {service.id} follows no source")
    return {
        **values_of(service, source_url(upstream), upstream.root_certificate),
        "method": upstream.method,
        "slot": "own" if upstream.makes_slot else "none",
        "archive": upstream.archive or "",
        "version": str(service.pg_major),
    }
