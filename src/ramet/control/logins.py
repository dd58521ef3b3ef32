"""Logins of keys in the databases of services: a role of one's own, instead of the admin's password for everybody."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.control.keys import present_key
from ramet.control.lookup import check_writable, find_service, wrong_state
from ramet.control.plane import Plane
from ramet.errors import Error, Exhausted, Forbidden, NotFound, Unauthorized
from ramet.ids import new_id
from ramet.model.keys import ApiKey
from ramet.model.login import MOST_OF_KEY, Login, check_seconds
from ramet.model.passwords import Secret, new_password, scram_verifier
from ramet.model.rights import Role
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.procedures.servers import server_of
from ramet.store import keys, logins

_PREFIX = "ramet_login_"


@dataclass(frozen=True)
class NewLogin:
    """A login with its password, which is kept nowhere."""

    login: Login
    password: Secret


def create_login(
    plane: Plane, project_id: str, service_id: str, ttl_seconds: int, *, read_only: bool = False
) -> NewLogin:
    """Make a login of the caller in a serving service: a viewer's is read-only, others can have the admin's rights.

    It ends with the key at the latest. It is recorded before the role exists: whatever happens, the role is dropped.
    Raises Unauthorized when the key was revoked, or the login ended, while the role was made.
    """
    check_seconds(ttl_seconds)
    caller = plane.caller
    if caller is None:
        raise Forbidden("FORBIDDEN", "A login belongs to an API key", "Ask for it with one.")
    with plane.store.write() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        check_writable(service, "createLogin")
        if status_of(service) is not Status.READY:
            raise wrong_state(service, "createLogin", (Status.READY,))
        caller = present_key(tx, caller, plane.clock())
        _check_number(plane, tx, caller, service.id)
        login = _login_of(plane, caller, service.id, ttl_seconds, read_only=read_only)
        logins.insert_login(tx, login)
    password = new_password()
    verifier = scram_verifier(password)
    with _ended_if_refused(plane, login):
        plane.backend.logins.create(
            server_of(service), login.role, verifier, login.expires_at, read_only=login.read_only
        )
    if not _is_wanted(plane, login):
        _drop_if_possible(plane, service, login.role)
        raise Unauthorized("UNAUTHORIZED", "The API key was revoked, or the login ended, just now", "Use another key.")
    return NewLogin(login, password)


def list_logins(plane: Plane, project_id: str, service_id: str) -> list[Login]:
    """Return the logins of a service that have not ended; those of the caller alone unless it is an admin."""
    with plane.store.read() as tx:
        service = find_service(plane, tx, project_id, service_id)
        return _visible(plane, tx, service.id)


def revoke_login(plane: Plane, project_id: str, service_id: str, role: str) -> None:
    """End a login at once: one of the caller, or any for an admin.

    It is recorded as ended first: if its role cannot be dropped now, it is dropped when the server can be asked.
    """
    with plane.store.write() as tx:
        service = find_service(plane, tx, project_id, service_id, lock=True)
        if role not in [one.role for one in _visible(plane, tx, service.id)]:
            raise NotFound("LOGIN_NOT_FOUND", "no login with that role exists", f"role {role[:64]!r}")
        logins.end_login(tx, role, plane.clock())
    _drop_if_possible(plane, service, role)


@contextmanager
def _ended_if_refused(plane: Plane, made: Login) -> Iterator[None]:
    """End a login whose role cannot be made: it is not one of those that its key may have."""
    try:
        yield
    except Exception:
        with plane.store.write() as tx:
            logins.end_login(tx, made.role, plane.clock())
        raise


def _is_wanted(plane: Plane, made: Login) -> bool:
    """Tell whether a login whose role exists now has not ended since; record it again, as ended, if it is forgotten.

    Who has ended it has found no role. One that was moved with the data of before ends in both services.
    """
    with plane.store.write() as tx:
        kept = next((one for one in logins.list_logins(tx) if one.role == made.role), None)
        key, now = keys.find_key(tx, made.public_key), plane.clock()
        if kept is None:
            logins.insert_login(tx, replace(made, expires_at=now))
            return False
        if kept.service_id != made.service_id:
            logins.end_login(tx, made.role, now)
            return False
    return now < kept.expires_at and key is not None and key.is_active(now)


def _drop_if_possible(plane: Plane, service: Service, role: str) -> None:
    """Drop the role of a login that has ended, and forget it; otherwise that is done when the server can be asked."""
    if status_of(service) is Status.READY:
        with suppress(Error):
            plane.backend.logins.drop(server_of(service), [role])
            with plane.store.write() as tx:
                logins.delete_logins(tx, service.id, [role])


def _visible(plane: Plane, tx: sa.Connection, service_id: str) -> list[Login]:
    caller, now = plane.caller, plane.clock()
    own = None if caller is None or caller.role is Role.ADMIN else caller.public_key
    found = logins.list_logins(tx, service_id)
    return [one for one in found if now < one.expires_at and own in (None, one.public_key)]


def _login_of(plane: Plane, caller: ApiKey, service_id: str, ttl_seconds: int, *, read_only: bool) -> Login:
    now = plane.clock()
    ends_at = now + timedelta(seconds=ttl_seconds)
    ends_at = ends_at if caller.expires_at is None else min(ends_at, caller.expires_at)
    role = f"{_PREFIX}{new_id()}"
    return Login(role, service_id, caller.public_key, read_only or caller.role is Role.VIEWER, now, ends_at)


def _check_number(plane: Plane, tx: sa.Connection, caller: ApiKey, service_id: str) -> None:
    now, known = plane.clock(), logins.list_logins(tx, service_id)
    own = [one for one in known if one.public_key == caller.public_key and now < one.expires_at]
    if len(own) >= MOST_OF_KEY:
        raise Exhausted(
            "TOO_MANY_LOGINS",
            f"Key {caller.public_key} has {MOST_OF_KEY} logins in service {service_id}, the maximum",
            f"Wait until one ends, or end one: ramet db logins {service_id} --revoke ROLE.",
        )
