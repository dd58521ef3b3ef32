"""Move a service to another Ramet: the copy there follows it, and takes its place when it is stopped here.

step      leaves behind or does                                              undo
check     what project the key opens there, and that it may                  -
admit     a role by which the other Ramet may stream from the service        it is removed
follow    a service there that is to follow this one                         it is deleted there
catch_up  waits until that is close behind                                   -
claim     the service is PAUSING                                             the claim ends
settle    waits for forks that copy from it                                  -
stop      its server is down, and the service is paused                      it serves again
drain     waits until the copy has the last record of the service            -
promote   the service there takes its place                                  it is deleted, unless it has done so
equip     what else the service had: its pooler, protection, and so on       -
end       the service stays here, paused, under another name                 -

The copy is promoted only after the service was stopped in order, and the copy has all of its WAL: no acknowledged row
is lost, and it is never writable in both places. Until `promote` the service serves again after a failure. From then
on the other Ramet alone decides: it is asked for as long as it takes, and nothing is started here before it has said
that the copy did not take the service's place, and will not.
"""

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta

import sqlalchemy as sa
from msgspec.structs import replace

from ramet.backends.interface.replication import Trust
from ramet.endpoints import connection_uri
from ramet.errors import Error, Failed, Unavailable
from ramet.machine import sealing
from ramet.model.names import suffixed
from ramet.model.passwords import Secret, scram_verifier
from ramet.model.procedures import ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.snapshot import lsn_number
from ramet.model.status import Status
from ramet.model.words import listed
from ramet.moves.destination import Address, Destination, OpenDestination, Seen, Source, belongings_of
from ramet.moves.refusals import check_can_move
from ramet.operations.procedure import Done, Next, Outcome, Wait, Work
from ramet.procedures.servers import Steps, await_settled, finish, is_claimed, server_of, start_again
from ramet.procedures.state import MoveState
from ramet.store import replica_sets, services

_log = logging.getLogger(__name__)
PURPOSE = "keys of moves"
MOVED = "moved"  # the setting with the id of the move by which the service is elsewhere
GIVEN_UP = "move_given_up"  # the setting with the id of a move whose other Ramet is lost, as an admin said
KEPT = "moved"  # in the name of the service that stays here
_MARK = "ramet-move"
_CLOSE_BYTES = 16 * 1024**2
_LOOK_SECONDS = 0.2
_PAUSE_SECONDS = 1.0
_DRAIN_WITHIN = timedelta(seconds=30)
_EQUIP_WITHIN = timedelta(seconds=120)
_MOST_ATTEMPTS_TO_DELETE = 60
_MOST_NAMED = 100
_EMPTY = "Unlogged tables are empty there: {}. The service that stays here has their rows."


def _nowhere(address: Address) -> AbstractContextManager[Destination]:
    raise AssertionError(f"BUG: no way to the Ramet at {address.url} was wired")


@dataclass(frozen=True)
class Move(Steps):
    """The steps of `move`."""

    open_destination: OpenDestination = _nowhere
    root_key: bytes = field(default=b"", repr=False)
    name = ProcedureName.MOVE

    def check(self, work: Work[MoveState]) -> Outcome:
        with self._destination(work) as there:
            project_id, is_admin = there.identify()
        if not is_admin:
            raise Failed(
                "FORBIDDEN", f"The key {work.state.public_key} is no ADMIN there", "Use a key with the role ADMIN."
            )
        return Next("admit", replace(work.state, to_project_id=project_id))

    def admit(self, work: Work[MoveState]) -> Outcome:
        service = self._service(work)
        if status_of(service) is not Status.READY:
            return Wait(_PAUSE_SECONDS, f"service {service.id} is {status_of(service)}")
        admit = self.tools.backend.replication.admit_copy
        role = admit(self.tools.server(work), scram_verifier(self._password(work)))
        return Next("follow", replace(work.state, role=role))

    def follow(self, work: Work[MoveState]) -> Outcome:
        service = self._service(work)
        source = self._source(work, service)
        belongings = belongings_of(service, work.state.name)
        with self._destination(work) as there:
            found = there.follow(belongings, source, _mark_of(work), work.operation_id)
        return Next("catch_up", replace(work.state, target_id=found))

    def catch_up(self, work: Work[MoveState]) -> Outcome:
        """Wait until the copy is close behind, also while one of both sides is away: it may have taken hours so far."""
        self._service(work)
        try:
            return self._closeness(work)
        except Unavailable as error:
            return Wait(_PAUSE_SECONDS, str(error))

    def _closeness(self, work: Work[MoveState]) -> Outcome:
        seen = self._look(work)
        if seen is None or (seen.status is Status.UNSTABLE and not seen.was_ready):
            raise Failed("NOT_COPIED", f"The service there could not be made: {_why(seen)}", "Move it again.")
        if seen.status is Status.READY and not seen.follows:
            raise _follows_no_more()
        if seen.status is not Status.READY or seen.problem is not None or seen.lag_bytes is None:
            self.tools.backend.replication.hasten_copy(self.tools.server(work))
            return Wait(_LOOK_SECONDS, seen.problem or f"the service there is {seen.status}")
        if seen.lag_bytes > _CLOSE_BYTES:
            return Wait(_LOOK_SECONDS, f"{seen.lag_bytes >> 20} MiB behind")
        return Next("claim")

    def claim(self, work: Work[MoveState]) -> Outcome:
        """Claim the service, unless something has made that impossible since the move was accepted."""
        service = self._service(work)
        if not _is_free(service):
            return Wait(_LOOK_SECONDS, f"service {service.id} is {status_of(service)}")
        self._check_can_move(service)

        def record(tx: sa.Connection) -> None:
            current = services.get_service(tx, work.subject, lock=True)
            if current is None or not _is_free(current):
                raise Unavailable("SERVICE_BUSY", f"Service {work.subject} has just begun to change")
            services.update_service(tx, work.subject, operation_id=work.operation_id)

        unlogged = self.tools.backend.replication.unlogged_tables(self.tools.server(work))
        notes = (_EMPTY.format(listed(unlogged, _MOST_NAMED)),) if unlogged else ()
        return Next("settle", replace(work.state, notes=notes), changes=record)

    def settle(self, work: Work[MoveState]) -> Outcome:
        return await_settled(self.tools, work) or Next("stop", replace(work.state, stopped_at=self.tools.clock()))

    def stop(self, work: Work[MoveState]) -> Outcome:
        """Stop the server in order: it sends its last WAL to the copy before it ends."""
        server = self.tools.server(work)
        self.tools.backend.servers.stop(server)
        end_lsn = self.tools.backend.replication.end_lsn(server)
        if end_lsn is None:
            raise Unavailable("NOT_CLEANLY_STOPPED", f"The server of service {work.subject} did not stop in order")

        def record(tx: sa.Connection) -> None:
            services.update_service(tx, work.subject, paused=True)

        return Next("drain", replace(work.state, end_lsn=end_lsn), changes=record)

    def drain(self, work: Work[MoveState]) -> Outcome:
        """Wait a short time for the end of the service, which is down: also where the other side does not answer."""
        self._service(work)
        try:
            seen = self._look(work)
        except Unavailable as error:
            return self._await_end(work, str(error))
        if seen is None or not seen.follows:
            raise _follows_no_more()
        # The end is where the record of the shutdown begins, which the promotion there needs, too.
        if seen.replayed_lsn is not None and lsn_number(seen.replayed_lsn) > lsn_number(_end_of(work)):
            return Next("promote", replace(work.state, is_decided=True), durable=True)
        return self._await_end(work, f"it has {seen.replayed_lsn}")

    def _await_end(self, work: Work[MoveState], found: str) -> Wait:
        if self.tools.clock() - work.step_started_at > _DRAIN_WITHIN:
            raise Failed(
                "COPY_BEHIND",
                f"The service there has not received the end of this one, {work.state.end_lsn}, in time: {found}",
                "Move it again when the connection is better.",
            )
        return Wait(_LOOK_SECONDS, f"waiting for {work.state.end_lsn}: {found}")

    def promote(self, work: Work[MoveState]) -> Outcome:
        """Let the service there take the place of this one, and wait for it as long as it takes."""
        try:
            with self._destination(work) as there:
                seen = there.look(_target_of(work))
                if seen is not None and seen.follows and seen.status in (Status.READY, Status.UNSTABLE):
                    there.take_place(_target_of(work), _end_of(work))
        except Error as error:
            # The time keeps the deadline of the step away: what is decided there is not undone here.
            return Wait(_PAUSE_SECONDS, f"{error} ({self.tools.clock():%H:%M:%S})")
        if seen is None:
            raise Failed("COPY_DELETED", "The service there was deleted before it was open", "Move it again.")
        if seen.follows or seen.status is not Status.READY:
            return Wait(_LOOK_SECONDS, f"it is {seen.status} ({self.tools.clock():%H:%M:%S})")
        state = replace(work.state, address=(seen.host, seen.port), stopped_seconds=self._seconds_since_stop(work))
        return Next("equip", state)

    def equip(self, work: Work[MoveState]) -> Outcome:
        service = self.tools.service(work.subject)
        name = work.state.name if work.state.is_named else service.name
        try:
            with self._destination(work) as there:
                belongings = belongings_of(service, name)
                notes = there.equip(_target_of(work), belongings, _mark_of(work))
        except Error as error:
            if self.tools.clock() - work.step_started_at < _EQUIP_WITHIN:
                return Wait(_PAUSE_SECONDS, str(error))
            notes = [f"Its settings may not be complete: {error}"]
        return Next("end", replace(work.state, name=name, notes=(*work.state.notes, *notes)))

    def end(self, work: Work[MoveState]) -> Outcome:
        self.tools.backend.replication.refuse_copy(self.tools.server(work))
        kept_as = _kept_as(work.state, self.tools.service(work.subject))
        return Done(replace(work.state, kept_as=kept_as), changes=lambda tx: _keep_paused(tx, work))

    def undo_promote(self, work: Work[MoveState]) -> None:
        """Make sure that the service there does not take the place of this one, or record that it did.

        Raises Unavailable, again and again, while the other Ramet does not say it, unless an admin has given it up.
        """
        try:
            with self._destination(work) as there:
                seen = there.look(_target_of(work))
                if seen is not None and seen.follows and seen.status is not Status.DELETING:
                    there.delete(_target_of(work))
                    seen = there.look(_target_of(work))
        except Error:
            if self.tools.service(work.subject).settings.get(GIVEN_UP) == work.operation_id:
                return
            raise
        if seen is None or seen.status is Status.DELETING:
            return
        if seen.follows:
            raise Unavailable("COPY_UNDECIDED", "The service there is not deleted yet")
        self._record_moved(work)

    def undo_stop(self, work: Work[MoveState]) -> None:
        """Let the service serve again."""
        if not is_claimed(self.tools, work):
            return
        server = self.tools.server(work)
        start_again(self.tools, server)
        self.tools.backend.servers.open(server)
        with self.tools.store.write() as tx:
            finish(tx, work, paused=False, down_reason=None)

    def undo_claim(self, work: Work[MoveState]) -> None:
        """End the claim, if nothing was stopped."""
        with self.tools.store.write() as tx:
            finish(tx, work)

    def undo_follow(self, work: Work[MoveState]) -> None:
        """Delete the service there, which only follows. One that cannot be deleted is named in the log."""
        if self.tools.service(work.subject).settings.get(MOVED) == work.operation_id:
            return
        try:
            with self._destination(work) as there:
                found = work.state.target_id or there.find(_mark_of(work))
                seen = None if found is None else there.look(found)
                if found is not None and seen is not None and seen.follows and seen.status is not Status.DELETING:
                    there.delete(found)
        except Error as error:
            if isinstance(error, Unavailable) and work.attempt < _MOST_ATTEMPTS_TO_DELETE:
                raise
            left = work.state.target_id or f"with the label {_MARK}={work.operation_id}"
            _log.warning("the service %s stays in the Ramet at %s: %s", left, work.state.to_url, error)

    def undo_admit(self, work: Work[MoveState]) -> None:
        self.tools.backend.replication.refuse_copy(self.tools.server(work))

    def _record_moved(self, work: Work[MoveState]) -> None:
        """Record that the service is there, although the operation fails: it was open before that could be undone."""
        _log.warning("service %s has moved to %s, though not all of its settings", work.subject, work.state.to_url)
        with self.tools.store.write() as tx:
            if is_claimed(self.tools, work):
                _keep_paused(tx, work)

    def _check_can_move(self, service: Service) -> None:
        with self.tools.store.read() as tx:
            sets = replica_sets.live_sets(tx, service.id)
        slots = self.tools.backend.replication.slots(server_of(service)).slots
        check_can_move(service, sets, slots, is_copied=True)

    def _source(self, work: Work[MoveState], service: Service) -> Source:
        """Return the endpoint of the service, with what verifies its certificate; nothing does where it has no TLS."""
        trust, mode = self._trust(service), "verify-full"
        if trust is None:
            mode = "require" if self.tools.backend.host.has_tls(service.pg_major) else "disable"
        elif not trust.names_host:
            mode = "verify-ca"
        url = connection_uri(service.host, service.port, role=work.state.role, sslmode=mode)
        return Source(url, self._password(work), None if trust is None else trust.authority)

    def _trust(self, service: Service) -> Trust | None:
        if not self.tools.backend.host.has_tls(service.pg_major):
            return None
        own = self.tools.backend.replication.trust(server_of(service))
        authority = self.tools.backend.authority
        return own or (Trust(authority, names_host=True) if authority else None)

    def _seconds_since_stop(self, work: Work[MoveState]) -> float:
        now = self.tools.clock()
        return round(max(0.0, (now - (work.state.stopped_at or now)).total_seconds()), 3)

    def _service(self, work: Work[MoveState]) -> Service:
        """Return the service. Raises Failed when it is gone, or about to go."""
        service = self.tools.service(work.subject)
        if service.deleted_at is not None or status_of(service) is Status.DELETING:
            raise Failed("SERVICE_DELETED", f"Service {service.id} was deleted before it was moved")
        return service

    def _destination(self, work: Work[MoveState]) -> AbstractContextManager[Destination]:
        state = work.state
        secret = self._unsealed(work, state.secret_key)
        address = Address(state.to_url, state.to_project_id, state.public_key, secret, state.authority)
        return self.open_destination(address)

    def _look(self, work: Work[MoveState]) -> Seen | None:
        with self._destination(work) as there:
            return there.look(_target_of(work))

    def _password(self, work: Work[MoveState]) -> Secret:
        return self._unsealed(work, work.state.password)

    def _unsealed(self, work: Work[MoveState], sealed: str | None) -> Secret:
        try:
            return sealing.unseal(self.root_key, PURPOSE, work.subject, sealed or "")
        except ValueError as error:
            raise Failed(
                "SEALED_ELSEWHERE", "The keys of this move were sealed with another root key", "Move it again."
            ) from error


def _keep_paused(tx: sa.Connection, work: Work[MoveState]) -> None:
    """Record that the service has moved: here it stays paused, under another name."""
    service = services.get_service(tx, work.subject, lock=True)
    if service is None:
        raise AssertionError(f"BUG: service {work.subject} is gone while it is claimed")
    settings = {**service.settings, MOVED: work.operation_id}
    finish(tx, work, paused=True, down_reason=None, name=_kept_as(work.state, service), settings=settings)


def _kept_as(state: MoveState, service: Service) -> str:
    """Return the name that the service gets here: that of the request, or the same for the name that it has now."""
    _, mark, time = state.kept_as.rpartition(f"-{KEPT}-")
    return suffixed(service.name, mark + time)


def _is_free(service: Service) -> bool:
    return status_of(service) is Status.READY and service.activity is None


def _mark_of(work: Work[MoveState]) -> Mapping[str, str]:
    """Return the label by which the service there is found, when only its request was sent."""
    return {_MARK: work.operation_id}


def _target_of(work: Work[MoveState]) -> str:
    if work.state.target_id is None:
        raise AssertionError("BUG: the service there was not requested")
    return work.state.target_id


def _end_of(work: Work[MoveState]) -> str:
    if work.state.end_lsn is None:
        raise AssertionError("BUG: the service was not stopped")
    return work.state.end_lsn


def _follows_no_more() -> Failed:
    return Failed("NOT_FOLLOWING", "The service there follows this one no more", "Move it again.")


def _why(seen: Seen | None) -> str:
    return "it is gone" if seen is None else seen.problem or f"it is {seen.status}"
