"""The cookies of the console: the session, those of other projects, and what was seen of each project."""

from typing import Any

from litestar import Request, Response

SESSION = "ramet_session"
_OTHERS = "ramet_others"
_MOST_OTHERS = 8
_YEAR_SECONDS = 31_536_000
_AnyRequest = Request[Any, Any, Any]


def other_tokens(request: _AnyRequest) -> list[str]:
    """Return the tokens of the sessions of other projects that this browser has."""
    return [one for one in request.cookies.get(_OTHERS, "").split(".") if one][:_MOST_OTHERS]


def set_sessions(request: _AnyRequest, answer: Response[Any], token: str, others: list[str], seconds: int) -> None:
    """Let the browser keep the session in use, and those of other projects, for some time."""
    _set(request, answer, SESSION, token, seconds)
    _set(request, answer, _OTHERS, ".".join(others[:_MOST_OTHERS]), seconds)


def delete_sessions(answer: Response[Any]) -> None:
    """Let the browser forget all sessions."""
    for name in (SESSION, _OTHERS):
        answer.delete_cookie(name, path="/console")


def seen_sequence(request: _AnyRequest, project_id: str) -> int | None:
    """Return the number of the newest event that was looked at; None when this browser never looked."""
    value = request.cookies.get(f"ramet_seen_{project_id}", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None


def mark_seen(request: _AnyRequest, answer: Response[Any], project_id: str, sequence: int) -> None:
    """Let the browser remember, longer than a session, that everything up to an event was looked at."""
    _set(request, answer, f"ramet_seen_{project_id}", str(sequence), _YEAR_SECONDS)


def _set(request: _AnyRequest, answer: Response[Any], name: str, value: str, seconds: int) -> None:
    secure = request.url.scheme == "https"
    answer.set_cookie(name, value, path="/console", max_age=seconds, httponly=True, samesite="strict", secure=secure)
