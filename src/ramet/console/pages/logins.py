"""The logins in a service: those of the key, or all for an admin; the form for a new one, and its password once."""

from litestar import Response, post
from litestar.params import FromPath

from ramet.console.context import CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.rendering import page, redirect
from ramet.console.views.forms import Form, InvalidField, refused, whole_number
from ramet.control import logins
from ramet.control.services import get_service
from ramet.endpoints import connection_uri
from ramet.errors import Error
from ramet.model.login import MOST_SECONDS

_HOUR = 3600


@read("/services/{service_id:str}/logins", operation="getLogins", sync_to_thread=True)
def logins_page(session: SignedIn, service_id: ServiceId) -> Response[str]:
    """List the logins, and show the form for a new one."""
    return _page(session, service_id, Form({"hours": "1"}))


@post("/services/{service_id:str}/logins", operation="createLogin", sync_to_thread=True, status_code=200)
def create_login(session: SignedIn, service_id: ServiceId, fields: Fields) -> Response[str]:
    """Make a login of the key, and show its password this once."""
    try:
        message = f"Enter a whole number from 1 to {MOST_SECONDS // _HOUR}"
        hours = whole_number(fields, "hours", 2, message)
        if not 0 < hours <= MOST_SECONDS // _HOUR:
            raise InvalidField("hours", message)
        read_only = fields.get("read_only") == "yes"
        made = logins.create_login(session.plane, session.project_id, service_id, hours * _HOUR, read_only=read_only)
    except Error as error:
        return _page(session, service_id, refused(fields, error), status_code=form_status(error))
    return _page(session, service_id, Form({"hours": fields["hours"]}), made=made)


@post(
    "/services/{service_id:str}/logins/{role:str}/revoke", operation="revokeLogin", sync_to_thread=True, status_code=200
)
def revoke_login(
    session: SignedIn, service_id: ServiceId, role: FromPath[str], fields: Fields
) -> Response[str] | Response[None]:
    """End a login now."""
    try:
        logins.revoke_login(session.plane, session.project_id, service_id, role)
    except Error as error:
        return _page(session, service_id, refused(fields, error), status_code=form_status(error))
    return redirect(f"/console/services/{service_id}/logins")


def _page(
    session: CurrentSession,
    service_id: str,
    form: Form,
    *,
    made: logins.NewLogin | None = None,
    status_code: int = 200,
) -> Response[str]:
    service = get_service(session.plane, session.project_id, service_id)
    uri = ""
    if made is not None:
        tls = session.plane.backend.host.has_tls(service.pg_major)
        uri = connection_uri(service.host, service.port, tls=tls, role=made.login.role, password=made.password.reveal())
    return page(
        "logins.html",
        session,
        service=service,
        logins=logins.list_logins(session.plane, session.project_id, service.id),
        form=form,
        made=made,
        uri=uri,
        most=MOST_SECONDS // _HOUR,
        status_code=status_code,
    )
