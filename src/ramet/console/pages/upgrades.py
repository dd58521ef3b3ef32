"""Upgrades of a service to another major version: the form, all of them, and the report of one."""

from collections.abc import Mapping

from litestar import Response, post
from litestar.params import FromPath

from ramet.console.context import CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.pages.services import created_page
from ramet.console.rendering import page, redirect
from ramet.console.views.forms import Form, InvalidField, confirm, major_of, new_key, refused
from ramet.console.views.upgrade_report import upgrade_view
from ramet.control.services import get_service
from ramet.errors import Error
from ramet.model.environment import Environment
from ramet.model.service import Service
from ramet.upgrades.verbs import UpgradeRequest, get_upgrade, later_majors, list_upgrades, upgrade_service

_KINDS = ("try", "keep", "upgrade")


@read("/services/{service_id:str}/upgrades", operation="getUpgrades", sync_to_thread=True)
def upgrades_page(session: SignedIn, service_id: ServiceId) -> Response[str]:
    """Show the form, and the upgrades that were tried."""
    service = get_service(session.plane, session.project_id, service_id)
    newest = max(later_majors(session.plane, service), default="")
    return _upgrades_page(session, service, Form({"kind": "try", "version": str(newest), "key": new_key()}))


@post("/services/{service_id:str}/upgrades", operation="upgradeService", sync_to_thread=True, status_code=200)
def upgrade(session: SignedIn, service_id: ServiceId, fields: Fields) -> Response[str] | Response[None]:
    """Try an upgrade, or upgrade a service. The name of a PROD service must be typed before it is stopped."""
    service = get_service(session.plane, session.project_id, service_id)
    try:
        request = _request(fields)
        if not request.is_trial and service.environment is Environment.PROD:
            confirm(service.name, fields)
        accepted = upgrade_service(session.plane, session.project_id, service.id, request, fields.get("key"))
    except Error as error:
        return _upgrades_page(session, service, refused(fields, error), status_code=form_status(error))
    if request.keeps:
        return created_page(session, accepted)
    return redirect(f"/console/services/{service.id}/upgrades/{accepted.service.id}")


@read("/services/{service_id:str}/upgrades/{upgrade_id:str}", operation="getUpgrade", sync_to_thread=True)
def upgrade_page(session: SignedIn, service_id: ServiceId, upgrade_id: FromPath[str]) -> Response[str]:
    """Show how far an upgrade is, and its report."""
    service = get_service(session.plane, session.project_id, service_id)
    found = get_upgrade(session.plane, session.project_id, service.id, upgrade_id)
    return page("upgrade.html", session, service=service, upgrade=found, report=upgrade_view(found))


def _upgrades_page(session: CurrentSession, service: Service, form: Form, *, status_code: int = 200) -> Response[str]:
    return page(
        "upgrades.html",
        session,
        service=service,
        form=form,
        majors=later_majors(session.plane, service),
        upgrades=list_upgrades(session.plane, session.project_id, service.id),
        status_code=status_code,
    )


def _request(values: Mapping[str, str]) -> UpgradeRequest:
    kind = values.get("kind", "")
    if kind not in _KINDS:
        raise InvalidField("kind", "Choose what to do")
    return UpgradeRequest(major_of(values), is_trial=kind != "upgrade", keeps=kind == "keep")
