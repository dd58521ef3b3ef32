"""The keys of the project: all of them, the form for a new one, and the page of one; and the quotas of the project."""

from collections.abc import Mapping
from datetime import timedelta

from litestar import Response, post
from litestar.params import FromPath

from ramet.console.context import CurrentSession, Fields, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.rendering import page, redirect
from ramet.console.views.forms import Form, InvalidField, refused, whole_number
from ramet.control.quotas import project_use
from ramet.control.services import list_services
from ramet.errors import Error
from ramet.model.keys import OVERLAP_SECONDS, ApiKey, KeyLimits
from ramet.model.passwords import Secret
from ramet.model.quota import NAMES
from ramet.model.rights import Role
from ramet.model.secret_marks import mark_of

_DAY = 86_400
_TITLES = {
    "max_services": "Services",
    "max_forks": "Forks",
    "max_cpu_millis": "CPU in thousandths of a core",
    "max_memory_gbs": "Memory in GB",
    "max_storage_gbs": "Space in GB",
}


@read("/keys", operation="getKeys", sync_to_thread=True)
def keys_page(session: SignedIn) -> Response[str]:
    """List the keys, and show the form for a new one."""
    return _keys_page(session, Form({"role": Role.DEVELOPER, "days": "90"}))


@post("/keys", operation="createKey", sync_to_thread=True, status_code=200)
def create_key(session: SignedIn, fields: Fields) -> Response[str]:
    """Make a key, and show its secret this once."""
    projects = session.context.projects
    try:
        now, days = projects.clock(), _number(fields, "days")
        made = projects.create_key(
            session.project_id,
            fields.get("name", ""),
            now,
            role=_role(fields),
            expires_at=None if days is None else now + timedelta(days=days),
            limits=_limits(fields),
            made_by=session.public_key,
        )
    except Error as error:
        return _keys_page(session, refused(fields, error), status_code=form_status(error))
    return _with_secret(session, *made, until="")


@read("/keys/{public_key:str}", operation="getKey", sync_to_thread=True)
def key_page(session: SignedIn, public_key: FromPath[str]) -> Response[str]:
    """Show a key, and the forms that rotate and revoke it."""
    return _key_page(session, public_key, Form({"hours": "1"}))


@post("/keys/{public_key:str}/rotate", operation="rotateKey", sync_to_thread=True, status_code=200)
def rotate_key(session: SignedIn, public_key: FromPath[str], fields: Fields) -> Response[str]:
    """Give a key another secret, and show it this once."""
    projects = session.context.projects
    try:
        hours = _number(fields, "hours")
        seconds = OVERLAP_SECONDS if hours is None else hours * 3600
        key, secret = projects.rotate_key(
            session.project_id, public_key, seconds, projects.clock(), mark=fields.get("mark", "")
        )
    except Error as error:
        return _key_page(session, public_key, refused(fields, error), status_code=form_status(error))
    return _with_secret(session, key, secret, until="The secret before is accepted until" if seconds else "")


@post("/keys/{public_key:str}/revoke", operation="revokeKey", sync_to_thread=True, status_code=200)
def revoke_key(session: SignedIn, public_key: FromPath[str], fields: Fields) -> Response[str] | Response[None]:
    """Revoke a key."""
    projects = session.context.projects
    try:
        projects.revoke_key_of(session.project_id, public_key, projects.clock())
    except Error as error:
        return _key_page(session, public_key, refused(fields, error), status_code=form_status(error))
    return redirect("/console/keys")


@read("/quotas", operation="getProjectLimits", sync_to_thread=True)
def quotas_page(session: SignedIn) -> Response[str]:
    """Show what the project may have, and what uses it up."""
    limits = session.context.projects.get_project(session.project_id).limits
    use = project_use(session.plane, session.project_id)
    rows = [(_TITLES[name], getattr(use, name.removeprefix("max_")), getattr(limits, name)) for name in NAMES]
    largest = sorted(use.holdings, key=lambda one: (one.memory_gbs, one.cpu_millis, one.storage_mb), reverse=True)
    return page("quotas.html", session, rows=rows, limits=limits, largest=largest[:10])


def _keys_page(session: CurrentSession, form: Form, *, status_code: int = 200) -> Response[str]:
    projects = session.context.projects
    return page(
        "keys.html",
        session,
        keys=projects.list_keys(session.project_id),
        now=projects.clock(),
        form=form,
        roles=list(Role),
        services=list_services(session.plane, session.project_id),
        status_code=status_code,
    )


def _key_page(session: CurrentSession, public_key: str, form: Form, *, status_code: int = 200) -> Response[str]:
    projects = session.context.projects
    key = projects.get_key(session.project_id, public_key)
    names = {one.id: one.name for one in list_services(session.plane, session.project_id)}
    values = {"key": key, "now": projects.clock(), "parents": [names.get(one, one) for one in key.limits.parents]}
    return page("key.html", session, form=form, mark=mark_of(key.secret_digest), status_code=status_code, **values)


def _with_secret(session: CurrentSession, key: ApiKey, secret: Secret, *, until: str) -> Response[str]:
    return page("key_created.html", session, key=key, secret=secret.reveal(), until=until)


def _role(values: Mapping[str, str]) -> Role:
    chosen = values.get("role", "")
    if chosen not in tuple(Role):
        raise InvalidField("role", "Choose a role")
    return Role(chosen)


def _limits(values: Mapping[str, str]) -> KeyLimits:
    hours = _number(values, "fork_hours")
    return KeyLimits(
        max_services=_number(values, "max_services"),
        max_forks=_number(values, "max_forks"),
        max_fork_ttl_seconds=None if hours is None else hours * 3600,
        parents=tuple(values.get("parents", "").split()),
    )


def _number(values: Mapping[str, str], name: str) -> int | None:
    return whole_number(values, name, 6) if values.get(name) else None
