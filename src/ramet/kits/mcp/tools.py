"""The tools: each is one verb of the client, or one session in a database."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Annotated, Any, TypeVar, cast

import msgspec
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from ramet.cli.commands.restore_points import ChosenPoint
from ramet.cli.connection import connection_string, log_in
from ramet.cli.ui.durations import absolute_time
from ramet.cli.ui.options import find_parent, find_service
from ramet.cli.user_files.passwords import forget_password, save_password
from ramet.client import Client, ForkStrategy, Keeping, TimedOut
from ramet.errors import Error, Failed, Invalid
from ramet.kits.catalog import describe_tables
from ramet.kits.mcp.callers import Callers
from ramet.kits.mcp.shapes import MARK, check_own_fork, is_own_fork, service_shape
from ramet.kits.mcp.space import Answer, within_limits
from ramet.kits.mcp.sql import MOST_ROWS, MOST_SECONDS, open_session, run_statement
from ramet.model.names import suffixed
from ramet.model.status import OperationStatus
from ramet.workbench.statements import StatementRefused

Tool = TypeVar("Tool", bound=Callable[..., Any])
Ctx = Context[Any, Any]

_USUAL_TTL_SECONDS = 7200
_SCHEMA_SECONDS = 30
_NOT_READY = "It is not READY yet: call wait."
ServiceName = Annotated[str, Field(description="Name or id of a service, as list_services shows it.")]
OwnFork = Annotated[str, Field(description="Name or id of a fork that these tools have made.")]
WaitSeconds = Annotated[int, Field(ge=1, le=MOST_SECONDS, description="How long to wait at most.")]
Ttl = Annotated[int | None, Field(ge=60, description="Seconds until the fork is deleted; 7200 if not given.")]
Point = Annotated[
    str | None, Field(description="Fork the data as of a past time: 10m (ago), 14:03, or RFC 3339 with an offset.")
]
SnapshotName = Annotated[str | None, Field(description="Fork this snapshot of the parent: its name or id.")]
Rows = Annotated[int, Field(ge=1, le=MOST_ROWS, description="How many rows to return at most.")]
CheckpointName = Annotated[str, Field(description="Name of a checkpoint of the fork.")]
Statement = Annotated[str, Field(description="One SQL statement.")]
TimeLimit = Annotated[int, Field(ge=1, le=MOST_SECONDS, description="When PostgreSQL gives the statement up.")]


class Tools:
    """The tools, on behalf of the callers of one server. What a docstring says is what agents read."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def list_services(self, ctx: Ctx) -> Answer:
        """List the PostgreSQL services that your key sees, and those that it may fork without seeing them."""
        client = self._callers(ctx.headers).client
        parents = client.auth_info().api_key.parents or []
        found = {
            "may_fork": [{"name": one.name, "service_id": one.service_id} for one in parents],
            "services": [service_shape(one) for one in client.list_services()],
        }
        return within_limits(found, "the other tools find a service by its name, too.")

    def fork(
        self,
        ctx: Ctx,
        service: ServiceName,
        name: Annotated[str | None, Field(description="Name of the fork.")] = None,
        to: Point = None,
        snapshot: SnapshotName = None,
        ttl_seconds: Ttl = None,
        wait_seconds: WaitSeconds = 120,
    ) -> Answer:
        """Fork a service: a database server of your own with its data, which costs little and is deleted by itself.

        Without `to` or `snapshot` it has all that is committed now. Work in the fork: the parent is not affected.
        """
        caller = self._callers(ctx.headers)
        parent = find_parent(caller.client, service)
        point = _chosen_point(to, snapshot)
        seconds = ttl_seconds or (None if caller.is_forker else _USUAL_TTL_SECONDS)
        made = caller.client.fork_service(
            parent.service_id,
            point.strategy,
            name=name or suffixed(parent.name, f"-agent-{secrets.token_hex(3)}"),
            keeping=Keeping(ttl_seconds=seconds, labels=MARK),
            **point.fields(),
        )
        if caller.saves_passwords and isinstance(made.initial_password, str):
            try:
                save_password(made.endpoint, made.initial_password)
            except Error as error:  # no wait may fail now: only this answer can have the password
                return {**service_shape(made), "password": made.initial_password, "next": _not_saved(error)}
        return _await_ready(caller.client, made.service_id, wait_seconds)

    def wait(self, ctx: Ctx, service: ServiceName, wait_seconds: WaitSeconds = 120) -> Answer:
        """Wait until a service is READY."""
        client = self._callers(ctx.headers).client
        return _await_ready(client, find_service(client, service).service_id, wait_seconds)

    def query(
        self,
        ctx: Ctx,
        service: ServiceName,
        sql: Statement,
        max_rows: Rows = 100,
        timeout_seconds: TimeLimit = 30,
    ) -> Answer:
        """Run one SQL statement that reads. It runs in a read-only transaction of a role that cannot write.

        Values that are long are cut.
        """
        caller = self._callers(ctx.headers)
        found = find_service(caller.client, service)
        with open_session(caller, found, timeout_seconds, read_only=True) as session:
            return run_statement(session, sql, max_rows)

    def execute(
        self,
        ctx: Ctx,
        fork: OwnFork,
        sql: Statement,
        max_rows: Rows = 100,
        timeout_seconds: TimeLimit = 60,
    ) -> Answer:
        """Run one SQL statement of any kind in your fork. It commits by itself."""
        caller = self._callers(ctx.headers)
        found = find_service(caller.client, fork)
        check_own_fork(caller, found, "Writing")
        with open_session(caller, found, timeout_seconds, read_only=False) as session:
            return run_statement(session, sql, max_rows)

    def schema(
        self,
        ctx: Ctx,
        service: ServiceName,
        table: Annotated[str | None, Field(description="One table or view, such as orders or public.orders.")] = None,
    ) -> Answer:
        """Describe the tables and views of a service: columns, constraints, indexes, and about how many rows."""
        caller = self._callers(ctx.headers)
        found = find_service(caller.client, service)
        with open_session(caller, found, _SCHEMA_SECONDS, read_only=True) as session:
            return within_limits(describe_tables(session, table), "ask for one table, or query pg_class.")

    def window(self, ctx: Ctx, service: ServiceName) -> Answer:
        """Show the times that a service can be forked as of, its gaps, and its snapshots."""
        client = self._callers(ctx.headers).client
        found = _plain(client.restore_window(find_service(client, service).service_id))
        kept = {name: found.pop(name) for name in ("gaps", "snapshots")}  # how many there are is not bounded
        return within_limits({**found, **kept}, "fork finds a snapshot by its name, too.")

    def report(self, ctx: Ctx, fork: ServiceName) -> Answer:
        """Show what a fork contains: of which time its data is, what was neutralized, and what was checked."""
        client = self._callers(ctx.headers).client
        found = _plain(client.fork_report(find_service(client, fork).service_id))
        return within_limits(found, "'ramet service report' shows all.")

    def checkpoint(self, ctx: Ctx, fork: OwnFork, name: CheckpointName) -> Answer:
        """Make a checkpoint of your fork, to which `rewind` returns it as often as you like."""
        caller = self._callers(ctx.headers)
        found = find_service(caller.client, fork)
        check_own_fork(caller, found, "A checkpoint")
        taken = caller.client.create_checkpoint(found.service_id, name)
        return _plain(caller.client.wait_checkpoint(found.service_id, taken.id))

    def rewind(self, ctx: Ctx, fork: OwnFork, name: CheckpointName) -> Answer:
        """Return your fork to a checkpoint, at the same endpoint. What was written since is lost; sessions end."""
        caller = self._callers(ctx.headers)
        found = find_service(caller.client, fork)
        check_own_fork(caller, found, "A rewind")
        begun = caller.client.rewind_service(found.service_id, name, confirm=found.name)
        over = caller.client.wait_restored(found.service_id, begun.restore_id, MOST_SECONDS)
        caller.forget_logins(found.service_id)
        if over.status is OperationStatus.FAILED and over.data_replaced:
            wrong = f"{found.name} has the data of the checkpoint, but was not opened: {over.error}"
            raise Failed("REWIND_FAILED", wrong, "It is started again: list_services shows when it is READY.")
        if over.status is OperationStatus.FAILED:
            raise Failed(
                "REWIND_FAILED", f"{found.name} was not rewound: {over.error}", "Its data is as it was before."
            )
        return service_shape(caller.client.wait_ready(found.service_id, MOST_SECONDS))

    def delete_fork(self, ctx: Ctx, fork: OwnFork) -> Answer:
        """Delete a fork that these tools have made. Do so when you are done; otherwise it expires later."""
        caller = self._callers(ctx.headers)
        found = find_service(caller.client, fork)
        check_own_fork(caller, found, "Deleting")
        caller.client.delete_service(found.service_id)
        caller.forget_logins(found.service_id)
        if caller.saves_passwords:
            forget_password(found.endpoint)
        return {"deleted": found.name}

    def connection(
        self,
        ctx: Ctx,
        service: ServiceName,
        with_password: Annotated[bool, Field(description="Make a login for it, whose password is shown.")] = False,
    ) -> Answer:
        """Show the connection string of a service, for psql, drivers and DATABASE_URL.

        It has a password only if you ask for one: that of a login of your key which ends within the hour. The login can
        write in your forks, and elsewhere it is read-only.
        """
        caller = self._callers(ctx.headers)
        found = find_service(caller.client, service)
        if not with_password:
            return {"uri": connection_string(found.endpoint)}
        made = log_in(caller.client, found, read_only=not is_own_fork(caller, found))
        uri = connection_string(found.endpoint, made.password, made.role)
        return {"uri": uri, "read_only": made.read_only, "expires_at": _plain(made)["expires_at"]}


def as_called(tool: Tool, callers: Callers) -> Tool:
    """Count the calls of each caller, and make errors of Ramet what the agent reads: what is wrong, and the remedy."""

    @wraps(tool)
    def called(*, ctx: Ctx, **named: Any) -> Any:
        try:
            with callers(ctx.headers).call():
                return tool(ctx=ctx, **named)
        except StatementRefused as error:  # what PostgreSQL says is of the user's own names
            raise ToolError(str(error)) from error
        except Error as error:
            raise ToolError(str(error).replace("target_time", "to")) from error

    return cast("Tool", called)


def _chosen_point(to: str | None, snapshot: str | None) -> ChosenPoint:
    if to is not None and snapshot is not None:
        raise Invalid("TWO_RESTORE_POINTS", "Both to and snapshot are given", "Give one of them, or none.")
    if to is not None:
        return ChosenPoint(ForkStrategy.PITR, target_time=absolute_time(to, datetime.now(UTC)))
    return ChosenPoint(ForkStrategy.NOW if snapshot is None else ForkStrategy.LAST_SNAPSHOT, snapshot=snapshot)


def _not_saved(error: Error) -> str:
    return f"{_NOT_READY} Tell the user the password of tsdbadmin, which is not saved in a file: {error}"


def _await_ready(client: Client, service_id: str, seconds: float) -> Answer:
    try:
        return service_shape(client.wait_ready(service_id, seconds))
    except TimedOut:
        return {**service_shape(client.get_service(service_id)), "next": _NOT_READY}


def _plain(found: msgspec.Struct) -> Answer:
    plain: Answer = msgspec.to_builtins(found)
    return plain
