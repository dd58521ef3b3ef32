"""Following a database: the form, and the report of what following it would do."""

from collections.abc import Mapping, Sequence

from litestar import Response, post

from ramet.console.context import CurrentSession, Fields, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.pages.services import created_page
from ramet.console.rendering import page
from ramet.console.views.forms import Form, environment_of, new_key, refused, sizes, split_size
from ramet.control.requests import CreateRequest
from ramet.errors import Error
from ramet.followers.verbs import FollowRequest, follow_service, plan_follow
from ramet.imports.report import Finding
from ramet.model.passwords import Secret
from ramet.model.upstream import FollowMethod


@read("/follow", sync_to_thread=True)
def follow_page(session: SignedIn) -> Response[str]:
    """Show the form."""
    return _follow_page(session, Form({"size": "shared", "method": "PHYSICAL", "slot": "none", "key": new_key()}))


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


def _follow_page(
    session: CurrentSession,
    form: Form,
    *,
    findings: Sequence[Finding] | None = None,
    source: str = "",
    status_code: int = 200,
) -> Response[str]:
    values = {"form": form, "sizes": sizes(session.plane), "findings": findings, "source": source}
    return page("service_follow.html", session, status_code=status_code, **values)


def _request(values: Mapping[str, str]) -> FollowRequest:
    cpu, memory = split_size(values.get("size", ""))
    create = CreateRequest(
        name=values.get("name", ""), cpu_millis=cpu, memory_gbs=memory, environment=environment_of(values)
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
