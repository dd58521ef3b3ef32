"""Logins of keys in the databases of services."""

from datetime import datetime

from litestar import Response
from litestar.params import JSONBody

from ramet.api.parameters import LoginRole
from ramet.api.responses import ServicePath, answer, create, empty, read, remove, router_of
from ramet.api.schemas.logins import Login, LoginCreate, LoginWithPassword
from ramet.control import logins
from ramet.model import login as model


@create("/logins", operation_id="createLogin", summary="Make a login of your own")
def create_login(at: ServicePath, data: JSONBody[LoginCreate | None] = None) -> Response[LoginWithPassword]:
    """Make a role of the key in the database of a READY service. Only this response contains its password.

    That of a VIEWER is read-only, and others with read_only; the rest have the rights of tsdbadmin. It ends by itself,
    and with the key; forks do not have it.
    """
    wanted = data or LoginCreate()
    seconds = model.USUAL_SECONDS if wanted.ttl_seconds is None else wanted.ttl_seconds
    made = logins.create_login(*at, seconds, read_only=wanted.read_only is True)
    return answer(LoginWithPassword(*_values(made.login), made.password.reveal()), 201)


@read("/logins", operation_id="getLogins", summary="List logins")
def list_logins(at: ServicePath) -> Response[list[Login]]:
    """The logins of a service that have not ended: those of the key, and for an ADMIN all."""
    return answer([Login(*_values(one)) for one in logins.list_logins(*at)])


@remove("/logins/{role:str}", operation_id="revokeLogin", summary="Revoke a login")
def revoke_login(at: ServicePath, role: LoginRole) -> Response[None]:
    """End a login before its time: its sessions end, and its role is dropped. One of the key, or any for an ADMIN.

    While the service does not serve, its role is dropped when it serves again.
    """
    logins.revoke_login(*at, role)
    return empty(204)


def _values(login: model.Login) -> tuple[str, str, bool, datetime, datetime]:
    return login.role, login.public_key, login.read_only, login.created_at, login.expires_at


logins_router = router_of(__name__, "Keys")
