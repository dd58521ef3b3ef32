"""Following a database: the form, and the report of what following it would do."""

from collections.abc import Mapping, Sequence

from litestar import Response, post
from litestar.params import FromQuery

from ramet.console.context import CurrentSession, Fields, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.pages.services import created_page
from ramet.console.rendering import page
from ramet.console.views.forms import Form, environment_of, new_key, refused, sizes, split_size, values_of, wanted_major
from ramet.control.requests import CreateRequest
from ramet.control.services import get_service_including_deleted
from ramet.errors import Error, NotFound
from ramet.followers.verbs import FollowRequest, follow_service, plan_follow
from ramet.imports.report import Finding
from ramet.imports.source_url import source_url
from ramet.model.passwords import Secret
from ramet.model.upstream import FollowMethod


@read("/follow", sync_to_thread=True)
def follow_page(session: SignedIn, again: FromQuery[str] = "") -> Response[str]:
    """Show the form; with the values of a service that could not be made and is to be made again."""
    values = {"size": "shared", "method": "PHYSICAL", "slot": "none"} if not again else _values_again(session, again)
    return _follow_page(session, Form({**values, "key": new_key()}))


@post("/follow", sync_to_thread=True, status_code=200)
def follow_database(session: SignedIn, fields: Fields) -> Response[str] | Response[None]:
    """Examine a source, or follow it; the form never contains the password again."""
    shown = {name: value for name, value in fields.items() if name != "password"}
    try:
        request = _request(fields)
        if fields.get("action") == "check":
            plan = plan_follow(session.plane, session.project_id, request)
            return _follow_page(session, Form(shown), findings=plan.findings, source=str(plan.source))
        accepted = follow_service(session.plane, session.project_id, request, fields.get("key"))
    except Error as error:
        return _follow_page(session, refused(shown, error), status_code=form_status(error))
    return created_page(session, accepted)


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


def _follow_page(
    session: CurrentSession,
    form: Form,
    *,
    findings: Sequence[Finding] | None = None,
    source: str = "",
    status_code: int = 200,
) -> Response[str]:
    majors = session.plane.backend.upgrades.majors()
    values = {"form": form, "sizes": sizes(session.plane), "majors": majors, "findings": findings, "source": source}
    return page("service_follow.html", session, status_code=status_code, **values)


def _request(values: Mapping[str, str]) -> FollowRequest:
    cpu, memory = split_size(values.get("size", ""))
    create = CreateRequest(
        name=values.get("name", ""),
        cpu_millis=cpu,
        memory_gbs=memory,
        environment=environment_of(values),
        pg_major=wanted_major(values),
    )
    return FollowRequest(
        create=create,
        url=values.get("url", ""),
        password=Secret(values.get("password", "")),
        root_certificate=values.get("root_certificate") or None,
        method=FollowMethod.LOGICAL if values.get("method") == "LOGICAL" else FollowMethod.PHYSICAL,
        creates_slot=values.get("slot") == "own",
        archive=values.get("archive") or None,
    )
