"""What a move asks of another Ramet, over the client; obeys ramet.moves.destination.Destination.

The application wires it; nothing of the client needs it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from msgspec import UNSET

from ramet.api.schemas.services import Service
from ramet.client import ApiError, Client, Keeping
from ramet.client.errors import UNKNOWN_ANSWER, TimedOut, is_absence
from ramet.client.http_connection import Limits
from ramet.client.transport import HttpTransport
from ramet.errors import Error, Failed, Unavailable
from ramet.model.rights import Role
from ramet.model.status import Status
from ramet.model.timestamps import rfc3339
from ramet.model.wal_level import WalLevel
from ramet.moves.destination import Address, Belongings, Seen, Source

_PASSING = (408, 425, 429, 500, 502, 503, 504)
_TIMEOUT_SECONDS = 30.0
# A step that waits holds one of few threads, and whoever names the other Ramet may have made it.
_LIMITS = Limits(seconds=60.0, size_bytes=16 * 1024**2)
_Gift = tuple[str, Callable[[], object]]
_MOST_CHARACTERS = 1000  # of a text from there: a step that waits records it several times a second


@dataclass(frozen=True)
class Elsewhere:
    """A project of another Ramet."""

    client: Client

    def identify(self) -> tuple[str, bool]:
        key = self.client.auth_info().api_key
        return _cut(key.project.id), key.role == Role.ADMIN

    def find(self, mark: Mapping[str, str]) -> str | None:
        found = self.client.list_services([f"{key}={value}" for key, value in mark.items()])
        return _cut(found[0].service_id) if found else None

    def follow(self, belongings: Belongings, source: Source, mark: Mapping[str, str], key: str) -> str:
        made = self.client.follow_database(
            belongings.name,
            source.url,
            source.password,
            root_certificate=source.authority,
            cpu_millis=belongings.cpu_millis,
            memory_gbs=belongings.memory_gbs,
            environment=belongings.environment,
            service_type=belongings.service_type,
            keeping=Keeping(labels={**belongings.labels, **mark}),
            idempotency_key=key,
        )
        return _cut(made.service_id)

    def look(self, service_id: str) -> Seen | None:
        try:
            found = self.client.get_service(service_id)
        except ApiError as error:
            if is_absence(error):
                return None
            raise
        following, reason = found.metadata.following, found.metadata.status_reason
        problem = (None if following is None else following.problem) or reason
        replayed_lsn = None if following is None else following.replayed_lsn
        return Seen(
            status=found.status,
            follows=following is not None,
            host=_cut(found.endpoint.host),
            port=found.endpoint.port,
            lag_bytes=None if following is None else following.lag_bytes,
            replayed_lsn=None if replayed_lsn is None else _cut(replayed_lsn),
            problem=None if problem is None else _cut(problem),
            was_ready=following is None or following.observed_at is not None,
        )

    def take_place(self, service_id: str, lsn: str) -> None:
        self.client.promote_service(service_id, wait_for_lsn=lsn, drain=True, take_place=True)

    def equip(self, service_id: str, belongings: Belongings, mark: Mapping[str, str]) -> list[str]:
        there, notes = self.client.get_service(service_id), list[str]()
        labels = there.metadata.labels
        if mark.items() <= labels.items():
            notes += self._given(self._renewals(there, belongings))
            self.client.update_labels(service_id, {**dict.fromkeys(labels), **belongings.labels})
        return notes + self._given(self._gifts(service_id, belongings))

    def delete(self, service_id: str) -> None:
        self.client.delete_service(service_id)

    def _given(self, gifts: Iterator[_Gift]) -> list[str]:
        notes = list[str]()
        for what, give in gifts:
            try:
                give()
            except ApiError as error:
                if _is_passing(error):
                    raise
                notes.append(_cut(f"It has no {what} there: {error}"))
        return notes

    def _renewals(self, there: Service, belongings: Belongings) -> Iterator[_Gift]:
        """Yield what the service has had there from the beginning, and has changed here since then."""
        client, service_id, environment = self.client, there.service_id, belongings.environment
        if there.name != belongings.name:
            yield f"name {belongings.name}", lambda: client.rename_service(service_id, belongings.name)
        if there.metadata.environment != environment:
            yield f"environment {environment}", lambda: client.set_environment(service_id, environment)

    def _gifts(self, service_id: str, belongings: Belongings) -> Iterator[_Gift]:
        """Yield what a service is given, each with the call that does it."""
        client, span = self.client, belongings.life_span
        if belongings.wal_level is not WalLevel.REPLICA:
            yield f"wal_level {belongings.wal_level}", lambda: self._set_wal_level(service_id, belongings.wal_level)
        if belongings.parameters:
            yield "settings of its own", lambda: self._set_parameters(service_id, belongings.parameters)
        if belongings.has_pooler:
            yield "pooler", lambda: client.enable_pooler(service_id)
        if belongings.is_archived is not None:
            yield "setting of its archive", lambda: client.update_archive(service_id, belongings.is_archived)
        if belongings.restore_settings:
            settings = dict(belongings.restore_settings)
            yield "restore settings", lambda: client.update_restore_settings(service_id, **settings)
        if span is not None:
            expires_at = UNSET if span.expires_at is None else rfc3339(span.expires_at)
            idle = UNSET if span.idle_ttl_seconds is None else span.idle_ttl_seconds
            yield (
                "life span",
                lambda: client.extend_service(service_id, expires_at=expires_at, idle_ttl_seconds=idle),
            )
        if belongings.is_protected:
            yield "protection", lambda: client.set_protection(service_id)

    def _set_wal_level(self, service_id: str, wal_level: WalLevel) -> None:
        """Set it, unless that is so or under way. Raises Unavailable until the server has restarted."""
        found = self.client.get_service(service_id)
        if found.metadata.wal_level != wal_level and found.status is Status.READY:
            found = self.client.set_wal_level(service_id, wal_level)
        if found.status is not Status.READY:
            raise Unavailable("SERVER_RESTARTING", f"The service there is {found.status}")

    def _set_parameters(self, service_id: str, wanted: Mapping[str, str]) -> None:
        """Set what is not so yet. Raises Unavailable until the server has restarted."""
        if self.client.get_service(service_id).status is Status.READY:
            known = {one.name: one.value for one in self.client.get_settings(service_id).settings}
            missing = {name: value for name, value in wanted.items() if known.get(name) != value}
            if not missing or self.client.update_settings(service_id, missing, restart=True).status is Status.READY:
                return
        raise Unavailable("SERVER_RESTARTING", "The server of the service there restarts")


@contextmanager
def open_elsewhere(address: Address) -> Iterator[Elsewhere]:
    """Open a project of another Ramet. Raises Failed for what it refuses, and Unavailable when it does not answer."""
    try:
        with Client(
            address.url,
            address.project_id,
            address.public_key,
            address.secret_key,
            ca=address.authority,
            transport=HttpTransport(address.url, _TIMEOUT_SECONDS, address.authority, _LIMITS),
        ) as client:
            yield Elsewhere(client)
    except (ApiError, TimedOut) as error:
        raise as_of_procedure(error) from error


def as_of_procedure(error: ApiError | TimedOut) -> Error:
    """Return an error of the client as procedures know it: one that repeating cannot help, or one that passes.

    A move shows it to whoever named the address: what something else than a Ramet sent there is no part of it.
    """
    code, message, details = _cut(error.code), _cut(error.message), _cut(error.details)
    if code == UNKNOWN_ANSWER:
        return Unavailable(code, message, "It is no answer of a Ramet: check the address.")
    if isinstance(error, TimedOut) or _is_passing(error):
        return Unavailable(code, message, details)
    return Failed(code, f"The other Ramet refuses: {message}", details)


def _cut(text: str) -> str:
    """Return what there is room for of a text that the other side has chosen."""
    return text[:_MOST_CHARACTERS]


def _is_passing(error: ApiError) -> bool:
    """Tell whether repeating may help. A page of a proxy, whatever its status, says nothing of the Ramet behind it."""
    return error.status in _PASSING or error.code == UNKNOWN_ANSWER
