"""The audit of the project: who changed what."""

from litestar import Response
from litestar.params import FromQuery

from ramet.audit.verbs import filter_of, list_audit
from ramet.console.context import SignedIn, read
from ramet.console.rendering import page


@read("/audit", operation="getAudit", sync_to_thread=True)
def audit_page(
    session: SignedIn,
    actor: FromQuery[str] = "",
    verb: FromQuery[str] = "",
    subject: FromQuery[str] = "",
    outcome: FromQuery[str] = "",
    cursor: FromQuery[str] = "",
) -> Response[str]:
    """Show the newest entries, or those before `cursor`, that the filters find."""
    wanted = {"actor": actor, "verb": verb, "subject": subject, "outcome": outcome}
    given = {name: value.strip() for name, value in wanted.items() if value.strip()}
    found = list_audit(session.plane, session.project_id, filter_of(**given), cursor=cursor or None)
    return page(
        "audit.html",
        session,
        entries=found.items,
        older=found.cursor,
        wanted=wanted,
        is_first=not cursor,
        given=given,
    )
