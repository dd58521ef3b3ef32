"""The logins that the console works with in services: made for the key that is signed in, and used for a while."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ramet import acting
from ramet.control import logins
from ramet.control.logins import NewLogin
from ramet.control.plane import Plane
from ramet.errors import Error, Forbidden
from ramet.model.keys import ApiKey
from ramet.model.rights import Role
from ramet.model.service import Service

_SECONDS = 900
_RENEWED_BEFORE = timedelta(seconds=360)  # the longest statement ends before its login does
_MOST_OF_KEY = 6  # of the 20 that it may have in each service


def may_write(key: ApiKey) -> bool:
    """Tell whether the logins of a key can have the rights of the admin."""
    return key.role is not Role.VIEWER


@dataclass(frozen=True)
class KeptLogins:
    """The logins that this process has made, with their passwords, which are kept nowhere else."""

    _kept: OrderedDict[tuple[str, str, bool], NewLogin] = field(default_factory=OrderedDict, repr=False)
    _sessions: Counter[tuple[str, str, bool]] = field(default_factory=Counter, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of_caller(self, plane: Plane, service: Service, *, writes: bool) -> NewLogin:
        """Return a login of the caller in a service that it sees, with the rights of the admin if it `writes`.

        Raises Forbidden where the caller may only read, and what `create_login` raises.
        """
        caller = plane.caller
        if caller is None or (writes and not may_write(caller)):
            raise Forbidden("FORBIDDEN", "This key may only read", "Use a key with another role.")
        name = (caller.public_key, service.id, writes)
        with self._lock:
            found = self._kept.get(name)
            if found is not None and _lasts(found.login.expires_at, caller, plane.clock()):
                self._kept.move_to_end(name)
                return found
        made = _make(plane, service, writes=writes)
        with self._lock:
            self._kept[name] = made
        self._give_up(plane, caller.public_key, caller.project_id)
        return made

    @contextmanager
    def in_use(self, plane: Plane, service: Service, *, writes: bool) -> Iterator[None]:
        """Keep the login that a session of the caller has: whoever revokes it ends the session."""
        name = (plane.caller.public_key if plane.caller else "", service.id, writes)
        with self._lock:
            self._sessions[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._sessions[name] -= 1
                if not self._sessions[name]:
                    del self._sessions[name]

    def forget(self, plane: Plane, service: Service, *, writes: bool) -> None:
        """Forget a login that a server does not know, or does not let in: its data was replaced."""
        if plane.caller is not None:
            with self._lock:
                self._kept.pop((plane.caller.public_key, service.id, writes), None)

    def _give_up(self, plane: Plane, public_key: str, project_id: str) -> None:
        """Revoke those of a key that were not used for longest: it may need its number of logins elsewhere.

        Those of open sessions stay, which are at most eight of a project.
        """
        with self._lock:
            over = {name: one for name, one in self._kept.items() if one.login.expires_at <= plane.clock()}
            own = [name for name in self._kept if name[0] == public_key and name not in over]
            over |= {name: self._kept[name] for name in own[:-_MOST_OF_KEY] if name not in self._sessions}
            for name in over:
                del self._kept[name]
        for one in over.values():
            if one.login.public_key == public_key:
                with suppress(Error), _own_act("revokeLogin", one.login.service_id, role=one.login.role):
                    logins.revoke_login(plane, project_id, one.login.service_id, one.login.role)


def _lasts(ends_at: datetime, caller: ApiKey, now: datetime) -> bool:
    """Tell whether a login is used on: until shortly before its end, or to the key's, since no other lasts longer."""
    ends_with_key = caller.expires_at is not None and ends_at >= caller.expires_at
    return now < (ends_at if ends_with_key else ends_at - _RENEWED_BEFORE)


def _make(plane: Plane, service: Service, *, writes: bool) -> NewLogin:
    with _own_act("createLogin", service.id, ttl_seconds=_SECONDS, read_only=not writes):
        return logins.create_login(plane, service.project_id, service.id, _SECONDS, read_only=not writes)


@contextmanager
def _own_act(verb: str, subject: str, **fields: object) -> Iterator[None]:
    """Let the audit have an entry of its own, whatever the request is that needs it."""
    act = acting.current()
    with acting.acting(act and replace(act, verb=verb, subject=subject, fields=fields, recorded=None)):
        yield
