"""The SQL editor of a service: one statement at a time, which reads unless it is asked to write."""

from collections.abc import Mapping, Sequence

from litestar import Response, post
from litestar.params import FromQuery

from ramet import acting
from ramet.console.context import CurrentSession, Fields, ServiceId, SignedIn, read
from ramet.console.error_pages import form_status
from ramet.console.rendering import HEADERS, page
from ramet.console.views.forms import Form, InvalidField, confirm, new_key, refused
from ramet.console.views.sql import as_csv, file_name
from ramet.control.recording import UNRECORDED
from ramet.control.services import get_service
from ramet.control.spent_forms import begin_once
from ramet.endpoints import DATABASE
from ramet.errors import Error, Forbidden, Invalid, TooLarge
from ramet.model.environment import Environment
from ramet.model.service import Service
from ramet.model.statement_text import without_literals
from ramet.redaction import shown_fields
from ramet.workbench.catalog import catalog_session, list_databases
from ramet.workbench.logins import may_write
from ramet.workbench.running import Running
from ramet.workbench.sessions import Limits, Place
from ramet.workbench.statements import (
    TEXTS,
    Amount,
    Complaint,
    Result,
    StatementRefused,
    explain,
    run,
)

_ACTIONS = ("run", "explain", "csv")
ROWS = (100, 1000)
SECONDS = (10, 60, 300)
_END_SECONDS = 10
_LONGEST_KEY = 64
_ELSEWHERE = (
    "No statement of this form is running in this process of Ramet. Where there are several, another one may be running"
    " it: cancel it again."
)
_CSV = Amount(100_000, cells=None, value_bytes=None, all_bytes=None)
_FIRST = {"database": DATABASE, "rows": str(ROWS[0]), "seconds": str(SECONDS[0])}


@read("/services/{service_id:str}/sql", operation="createLogin", sync_to_thread=True)
def sql_page(
    session: SignedIn, service_id: ServiceId, database: FromQuery[str] = DATABASE, sql: FromQuery[str] = ""
) -> Response[str]:
    """Show the editor; the query may give it a statement, which is not run."""
    service = get_service(session.plane, session.project_id, service_id)
    return _page(session, service, Form({**_FIRST, "database": database, "sql": sql}))


@post("/services/{service_id:str}/sql", operation="createLogin", sync_to_thread=True, status_code=200, opt=UNRECORDED)
def run_statement(session: SignedIn, service_id: ServiceId, fields: Fields) -> Response[str]:
    """Run, explain or cancel a statement. Only one that may write is recorded, before it begins."""
    fields = {**fields, "sql": fields.get("sql", "").replace("\r\n", "\n")}
    acting.note(fields=shown_fields({**fields, "sql": without_literals(fields["sql"])}))
    service = get_service(session.plane, session.project_id, service_id)
    action = fields.get("action", "run")
    if action == "cancel":
        return _cancelled(session, service, fields)
    try:
        result = _run(session, service, fields, action)
        if action == "csv":
            return _file(service, result)
    except StatementRefused as error:
        return _page(session, service, Form(fields), complaint=error.complaint, status_code=form_status(error))
    except Error as error:
        return _page(session, service, refused(fields, error), status_code=form_status(error))
    return _page(session, service, Form(fields), result=result)


def _run(session: CurrentSession, service: Service, fields: Mapping[str, str], action: str) -> Result:
    if action not in _ACTIONS:
        raise Invalid("INVALID_FIELD", f"action must be one of {', '.join(_ACTIONS)}, not {action[:20]!r}")
    writes = fields.get("write") == "yes" and action != "csv"
    if writes:
        acting.note(verb="runStatement", subject=service.id)
    statement, key = fields.get("sql", ""), fields.get("key", "")
    if not statement:
        raise InvalidField("sql", "Enter a statement")
    if not key:
        raise Invalid("INVALID_FIELD", "key is missing", "Open the form again.")
    cancels = _cancels(fields)
    for name, value in (("key", key), ("cancels", cancels)):
        if len(value) > _LONGEST_KEY:
            raise Invalid("INVALID_FIELD", f"{name} has more than {_LONGEST_KEY} characters", "Open the form again.")
    seconds, rows = _choice(fields, "seconds", SECONDS), _choice(fields, "rows", ROWS)
    commits = writes and action == "run"
    if writes:
        _check_writing(session, service, fields, action)
    place = Place(session.plane, service, fields.get("database") or DATABASE)
    with session.context.desk.running(session.project_id, session.public_key, cancels, commits=commits) as running:
        if commits:
            begin_once(session.plane, session.public_key, key)
        with session.context.workbench.session(place, Limits(seconds), writes=writes, context=TEXTS) as inside:
            running.begin_in(inside)
            if action == "explain":
                return explain(inside, statement, Amount(rows))
            return run(inside, statement, _CSV if action == "csv" else Amount(rows), writes=commits)


def _check_writing(session: CurrentSession, service: Service, fields: Mapping[str, str], action: str) -> None:
    if not may_write(session.key):
        raise Forbidden("FORBIDDEN", f"A key with the role {session.key.role} may only read", "Leave the tick out.")
    if action == "run" and service.environment is Environment.PROD:
        confirm(service.name, fields)


def _choice(fields: Mapping[str, str], name: str, allowed: Sequence[int]) -> int:
    text = fields.get(name, str(allowed[0]))
    if text not in [str(one) for one in allowed]:
        raise InvalidField(name, "Choose one of the list")
    return int(text)


def _cancels(fields: Mapping[str, str]) -> str:
    """Return the key of the statements that the form cancels: it outlives that of the form where one may still run."""
    return fields.get("cancels") or fields.get("key", "")


def _cancelled(session: CurrentSession, service: Service, fields: Mapping[str, str]) -> Response[str]:
    """Wait a while for the end of a statement that is cancelled; until then, its form can cancel it again."""
    cancels = _cancels(fields)
    run = session.context.desk.cancel(session.public_key, cancels)
    if run is None and session.plane.store.is_postgresql:
        return _page(session, service, Form(fields), done=_ELSEWHERE, cancels=cancels)
    if run is None or run.await_end(_END_SECONDS):
        return _page(session, service, Form(fields), done=_end_of(run))
    done = "The statement is being cancelled, and has not ended yet."
    return _page(session, service, Form(fields), done=done, cancels=cancels)


def _end_of(run: Running | None) -> str:
    if run is None:
        return "No statement of this form is running."
    if run.has_succeeded and run.commits:
        return "The statement ended before it was cancelled, and its changes are committed."
    if run.has_succeeded:
        return "The statement ended before it was cancelled. Run it again to see its result."
    if run.may_have_committed:
        return "The statement was cancelled, and its session ended. It may have been committed: look what it did."
    return "The statement was cancelled."


def _file(service: Service, result: Result) -> Response[str]:
    if result.is_cut:
        raise TooLarge("RESULT_TOO_LARGE", f"The result has more than {_CSV.rows} rows", "Select fewer rows.")
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{file_name(service.name)}"'}
    return Response(as_csv(result), media_type="text/csv", headers=headers)


def _page(
    session: CurrentSession,
    service: Service,
    form: Form,
    *,
    result: Result | None = None,
    complaint: Complaint | None = None,
    done: str = "",
    cancels: str = "",
    status_code: int = 200,
) -> Response[str]:
    databases, problem = _databases(session, service)
    return page(
        "sql.html",
        session,
        service=service,
        form=form,
        databases=list(dict.fromkeys([*databases, form["database"] or DATABASE])),
        problem=problem,
        key=new_key(),
        cancels=cancels,
        may_write=may_write(session.key),
        rows=ROWS,
        seconds=SECONDS,
        result=result,
        complaint=complaint,
        done=done,
        status_code=status_code,
    )


def _databases(session: CurrentSession, service: Service) -> tuple[Sequence[str], str]:
    """Return the databases of a service, or why they cannot be listed."""
    try:
        with catalog_session(session.context.workbench, Place(session.plane, service, DATABASE)) as inside:
            return list_databases(inside), ""
    except Error as error:
        return (), str(error)
