"""Switching between the projects whose keys this browser has signed in with."""

from litestar import Response, post

from ramet import acting
from ramet.console.auth.cookies import SESSION, set_sessions
from ramet.console.context import AnyRequest, Fields, SignedIn, read
from ramet.console.rendering import redirect
from ramet.errors import NotFound
from ramet.model.session import SESSION_LIFE, digest_token

_HOME = "/console/"


@read("/projects", operation="getProjects", sync_to_thread=False)
def projects(session: SignedIn) -> Response[None]:
    """Redirect to the services: the header of each page has the projects."""
    return redirect(_HOME)


@post("/projects", operation="getProjects", sync_to_thread=True, status_code=303)
def switch(request: AnyRequest, session: SignedIn, fields: Fields) -> Response[None]:
    """Use the session of another project, and keep this one. Raises NotFound."""
    acting.note(verb="switchProject")
    chosen = next((one for one in session.others if one.project_id == fields.get("project_id")), None)
    if chosen is None:
        raise NotFound(
            "NOT_SIGNED_IN", "This browser is not signed in to that project any more", "Sign in with a key of it."
        )
    tokens = {digest_token(token): token for token in session.other_tokens}
    token = tokens.pop(chosen.digest)
    answer = redirect(_HOME)
    set_sessions(
        request, answer, token, [request.cookies[SESSION], *tokens.values()], int(SESSION_LIFE.total_seconds())
    )
    return answer
