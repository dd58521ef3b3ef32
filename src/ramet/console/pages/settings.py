"""The settings of PostgreSQL that a service has of its own, with a form that changes one."""

from litestar import Response, post
from litestar.params import FromQuery

from ramet.console.context import CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.rendering import page, redirect
from ramet.console.views.forms import Form, confirm, refused
from ramet.control import parameters
from ramet.control.services import get_service
from ramet.errors import Error
from ramet.model.environment import Environment


@read("/services/{service_id:str}/settings", operation="getSettings", sync_to_thread=True)
def settings_page(session: SignedIn, service_id: ServiceId, setting: FromQuery[str] = "") -> Response[str]:
    """Show the settings, and the form with the present value of `setting`."""
    own = {one.parameter.name: one.value or "" for one in _settings(session, service_id)}
    return _page(session, service_id, Form({"setting": setting, "value": own.get(setting, "")}))


@post("/services/{service_id:str}/settings", operation="updateSettings", sync_to_thread=True, status_code=200)
def change_setting(session: SignedIn, service_id: ServiceId, fields: Fields) -> Response[str] | Response[None]:
    """Change a setting, or reset it if the value is empty; with `restart` the server may be restarted."""
    service = get_service(session.plane, session.project_id, service_id)
    restarts = fields.get("restart") == "yes"
    try:
        if restarts and service.environment is Environment.PROD:
            confirm(service.name, fields)
        changes = {fields["setting"]: fields.get("value") or None} if fields.get("setting") else {}
        parameters.update_settings(session.plane, session.project_id, service.id, changes, restarts=restarts)
    except Error as error:
        return _page(session, service_id, refused(fields, error), status_code=form_status(error))
    return redirect(f"/console/services/{service.id}/settings")


def _page(session: CurrentSession, service_id: str, form: Form, *, status_code: int = 200) -> Response[str]:
    service = get_service(session.plane, session.project_id, service_id)
    found = _settings(session, service.id)
    pending = [one.parameter.name for one in found if one.in_force is not None and one.in_force.is_pending]
    values = {"settings": found, "pending": pending, "form": form}
    return page("settings.html", session, service=service, status_code=status_code, **values)


def _settings(session: CurrentSession, service_id: str) -> list[parameters.Setting]:
    return parameters.list_settings(session.plane, session.project_id, service_id)
