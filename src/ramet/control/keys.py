"""The API keys of projects: making, changing, rotating and revoking them, and who is let in."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from msgspec import structs

from ramet import acting
from ramet.control.plane import utc_now
from ramet.errors import Error, Invalid, NotFound, Unauthorized, WrongState
from ramet.model.keys import (
    LONGEST_OVERLAP_SECONDS,
    NO_KEY_LIMITS,
    ApiKey,
    KeyLimits,
    checked_limits,
    digest_secret,
    new_public_key,
    new_secret,
    opened,
    reopened,
)
from ramet.model.names import check_name
from ramet.model.passwords import Secret
from ramet.model.rights import Role
from ramet.model.secret_marks import check_mark
from ramet.model.service import is_visible
from ramet.model.timestamps import rfc3339
from ramet.store import keys, projects, services, sessions
from ramet.store.database import Store

_RECORD_EVERY = timedelta(seconds=60)
_NO_DIGEST = "0" * 64
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Keys:
    """The verbs over keys. Safe to share between threads."""

    store: Store
    clock: Callable[[], datetime] = utc_now
    _recorded: dict[str, datetime] = field(default_factory=dict, repr=False, compare=False)

    def create_key(
        self,
        project_id: str,
        name: str,
        now: datetime,
        *,
        role: Role = Role.ADMIN,
        expires_at: datetime | None = None,
        limits: KeyLimits = NO_KEY_LIMITS,
        made_by: str | None = None,
    ) -> tuple[ApiKey, Secret]:
        """Make a key of a project and return it with its secret, which is kept nowhere. Raises NotFound, Invalid."""
        secret = new_secret()
        key = ApiKey(
            new_public_key(),
            project_id,
            check_name(name),
            digest_secret(secret),
            now,
            role=role,
            expires_at=_later(expires_at, now),
            limits=checked_limits(role, limits),
            made_by=made_by,
        )
        acting.note(project_id=project_id, subject=key.public_key)
        with self.store.write() as tx:
            _check_parents(tx, key, now)
            keys.insert_key(tx, key)
        return key, secret

    def list_keys(self, project_id: str) -> list[ApiKey]:
        """Return the keys of a project, revoked ones too."""
        with self.store.read() as tx:
            return keys.list_keys(tx, project_id)

    def get_key(self, project_id: str, public_key: str) -> ApiKey:
        """Return a key of a project. Raises NotFound."""
        with self.store.read() as tx:
            return _find(tx, project_id, public_key)

    def change_key(self, project_id: str, public_key: str, now: datetime, **changes: Any) -> ApiKey:
        """Change `name`, `expires_at`, and fields of its limits; its role stays. Raises NotFound, Invalid, WrongState.

        A key that has expired works again when it expires later.
        """
        with self.store.write() as tx:
            key = _unrevoked(tx, project_id, public_key, "change")
            own = {name: changes.pop(name) for name in ("name", "expires_at") if name in changes}
            limits = checked_limits(key.role, structs.replace(key.limits, **changes))
            key = structs.replace(key, **own, limits=limits)
            check_name(key.name)
            if "expires_at" in own:
                _later(key.expires_at, now)
            if "parents" in changes:
                _check_parents(tx, key, now)
            keys.update_key(tx, public_key, **own, limits=keys.limits_column(limits))
        return key

    def rotate_key(
        self,
        project_id: str,
        public_key: str,
        overlap_seconds: int,
        now: datetime,
        *,
        mark: str | None = None,
        derived: Callable[[str], Secret] | None = None,
    ) -> tuple[ApiKey, Secret]:
        """Give a key another secret; the present one is accepted for `overlap_seconds` more, an earlier one no longer.

        Console sessions that were begun before end with the present secret. `mark` is that of the secret to replace;
        None: whichever it is. `derived` makes the secret that replaces one with a digest: a key that has it already
        keeps it, as the request was repeated, and an overlap that ends earlier counts. Raises NotFound, Invalid,
        WrongState.
        """
        if not 0 <= overlap_seconds <= LONGEST_OVERLAP_SECONDS:
            wrong = f"overlap_seconds must be between 0 and {LONGEST_OVERLAP_SECONDS} (got {overlap_seconds})"
            raise Invalid("INVALID_OVERLAP_SECONDS", wrong, "Send 0 to end the present secret at once.")
        until = now + timedelta(seconds=overlap_seconds)
        with self.store.write() as tx:
            key = _unrevoked(tx, project_id, public_key, "rotate")
            if derived is not None and key.previous_digest is not None:
                secret = derived(key.previous_digest)
                if digest_secret(secret) == key.secret_digest:
                    return _shortened(tx, key, until), secret
            secret = new_secret() if derived is None else derived(key.secret_digest)
            check_mark(mark, key.secret_digest, f"Key {public_key}")
            if not key.is_active(now):
                raise WrongState(
                    "KEY_EXPIRED", f"Key {public_key} has expired", "Change when it expires, or make another one."
                )
            digests = {"secret_digest": digest_secret(secret), "previous_digest": key.secret_digest}
            keys.update_key(tx, public_key, **digests, previous_until=until)
            sessions.end_by(tx, public_key, until)
        return structs.replace(key, **digests, previous_until=until), secret

    def revoke_key(self, public_key: str, now: datetime) -> None:
        """Revoke a key, on its host; it opens nothing from now on. Raises NotFound."""
        with self.store.write() as tx:
            found = keys.find_key(tx, public_key)
            if found is None:
                raise _no_key(public_key)
            acting.note(project_id=found.project_id, subject=public_key)
            keys.revoke_key(tx, public_key, now)

    def revoke_key_of(self, project_id: str, public_key: str, now: datetime) -> None:
        """Revoke a key of a project, but never the last one of an admin. Raises NotFound, WrongState."""
        with self.store.write() as tx:
            projects.get_project(tx, project_id, lock=True)  # two admins may revoke each other's key at once
            key = _find(tx, project_id, public_key)
            others = [one for one in keys.list_keys(tx, project_id) if one.public_key != public_key]
            if key.role is Role.ADMIN and not any(one.role is Role.ADMIN and one.is_active(now) for one in others):
                raise WrongState(
                    "LAST_ADMIN_KEY",
                    f"Key {public_key} is the only one of an admin in this project",
                    "Make another one first; on the host, 'ramet key revoke --data DIRECTORY' revokes any key.",
                )
            keys.revoke_key(tx, public_key, now)

    def active_key(self, public_key: str) -> ApiKey:
        """Return a key that opens its project, for whoever has the host. Raises Unauthorized."""
        with self.store.read() as tx:
            key = keys.find_key(tx, public_key)
        if key is None or not key.is_active(self.clock()):
            raise Unauthorized("UNAUTHORIZED", "The API key is revoked, or has expired", "Sign in with another one.")
        return key

    def authenticate(self, public_key: str, secret: Secret) -> ApiKey:
        """Return the key that the credentials belong to. Raises Unauthorized; takes as long for unknown keys.

        One that was opened with the secret before its rotation expires with that.
        """
        with self.store.read() as tx:
            found = keys.find_key(tx, public_key)
        key = found or ApiKey(public_key, "", "", _NO_DIGEST, datetime.min.replace(tzinfo=UTC))
        matching = opened(key, secret, self.clock())
        if matching is None:
            raise Unauthorized(
                "UNAUTHORIZED",
                "The API key is unknown, revoked or expired, or its secret is wrong",
                "Send 'Authorization: Basic' with public_key:secret_key, or make a key with 'ramet key create'.",
            )
        return matching

    def is_opened_by(self, public_key: str, secret: Secret) -> bool:
        """Tell whether credentials open a project now, for who has shown them before."""
        try:
            self.authenticate(public_key, secret)
        except Unauthorized:
            return False
        return True

    def is_use_due(self, key: ApiKey) -> bool:
        """Tell whether the use of a key is to be recorded now: about once a minute for each process."""
        now, last = self.clock(), self._recorded.get(key.public_key, key.used_at)
        return last is None or not last <= now < last + _RECORD_EVERY

    def record_use(self, key: ApiKey) -> None:
        """Record that a key is used now; what comes in between is not lost, and a failure is only logged."""
        self._recorded[key.public_key] = now = self.clock()
        try:
            # Within a request, and no part of what it asks for: the audit does not have it.
            with acting.acting(None), self.store.write(durable=False, patient=True) as tx:
                keys.record_use(tx, key.public_key, now)
        except Error as error:
            _log.warning("the use of key %s was not recorded: %s", key.public_key, error)


def present_key(tx: sa.Connection, proven: ApiKey, now: datetime, *, lock: bool = False) -> ApiKey:
    """Return a key as it is now, for who proved to have it before. Raises Unauthorized.

    It opens nothing any more when it was revoked, has expired, or was rotated so that the secret that was used is void.
    """
    found = keys.find_key(tx, proven.public_key, lock=lock)
    key = None if found is None else reopened(found, proven)
    if key is None or not key.is_active(now):
        raise Unauthorized(
            "UNAUTHORIZED", "The API key is revoked or has expired, or its secret was rotated", "Use another one."
        )
    return key


def _find(tx: sa.Connection, project_id: str, public_key: str, *, lock: bool = False) -> ApiKey:
    found = keys.find_key(tx, public_key, lock=lock)
    if found is None or found.project_id != project_id:
        raise _no_key(public_key)
    return found


def _shortened(tx: sa.Connection, key: ApiKey, until: datetime) -> ApiKey:
    """Let the secret before the last rotation end at a time at the latest, with its sessions."""
    if key.previous_until is None or key.previous_until <= until:
        return key
    keys.update_key(tx, key.public_key, previous_until=until)
    sessions.end_by(tx, key.public_key, until, spared=key.secret_digest)
    return structs.replace(key, previous_until=until)


def _no_key(public_key: str) -> NotFound:
    return NotFound("KEY_NOT_FOUND", "no key with that public key exists", f"public_key {public_key[:64]!r}")


def _unrevoked(tx: sa.Connection, project_id: str, public_key: str, verb: str) -> ApiKey:
    key = _find(tx, project_id, public_key, lock=True)
    if key.revoked_at is not None:
        raise WrongState("KEY_REVOKED", f"Key {public_key} is revoked, and nobody can {verb} it", "Make another one.")
    return key


def _later(expires_at: datetime | None, now: datetime) -> datetime | None:
    if expires_at is not None and expires_at <= now:
        raise Invalid(
            "INVALID_EXPIRES_AT",
            f"expires_at must be in the future (got {rfc3339(expires_at)})",
            f"Now is {rfc3339(now)}.",
        )
    return expires_at


def _check_parents(tx: sa.Connection, key: ApiKey, now: datetime) -> None:
    for service_id in key.limits.parents:
        service = services.get_service(tx, service_id)
        if service is None or service.project_id != key.project_id or not is_visible(service, now):
            raise Invalid(
                "INVALID_PARENTS",
                f"parents names {service_id[:64]!r}, and no service of this project has that id",
                "Send ids of services that exist.",
            )
