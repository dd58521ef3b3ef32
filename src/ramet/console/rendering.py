"""Templates to answers: the one place that renders them, with the filters for times, sizes and messages."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import MediaType, Response
from markupsafe import Markup

from ramet import __version__
from ramet.console.context import CurrentSession
from ramet.console.static_files import asset_path
from ramet.console.views.again import again_path
from ramet.console.views.connections import connections, program_connections
from ramet.console.views.format import ago_text, bytes_text, seconds_text, size_text
from ramet.console.views.lineage_tree import data_as_of
from ramet.console.views.operation_steps import seconds_of, steps_of, title_of
from ramet.console.views.sql import beginning
from ramet.endpoints import address, pooler_host
from ramet.model.replica_set import replica_status, replica_status_reason
from ramet.model.service import is_down, restore_warning, shown_status, status_of, status_reason
from ramet.model.timestamps import rfc3339
from ramet.model.warm_forks import pool_of
from ramet.restores.verbs import may_restore

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)")
_TYPES = {"POSTGRES": "PostgreSQL", "TIMESERIESDB": "Time series", "VECTOR": "Vector"}
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def page(
    template: str,
    session: CurrentSession | None = None,
    *,
    status_code: int = 200,
    **values: Any,
) -> Response[str]:
    """Render a template to a page; `session` is None for pages that need no sign-in."""
    token = None if session is None else session.context.csrf.token_for(session)
    body = _environment().get_template(template).render(session=session, token=token, **values)
    return Response(body, media_type=MediaType.HTML, status_code=status_code, headers=dict(HEADERS))


def redirect(path: str, status_code: int = 303) -> Response[None]:
    """Redirect the browser to another page, which it fetches with GET."""
    return Response(None, status_code=status_code, headers={**HEADERS, "Location": path})


def htmx_redirect(path: str, status_code: int = 200) -> Response[None]:
    """Answer a request for a part of a page by opening another page in its place."""
    return Response(None, status_code=status_code, headers={**HEADERS, "HX-Redirect": path})


def time(value: datetime | None, style: str = "full") -> Markup:
    """Return a time in UTC; the script shows it in the viewer's zone. `style`: full, exact, clock or ago."""
    if value is None:
        return Markup("–")
    exact = rfc3339(value)
    day, clock = exact[:10], exact[11:19]
    title = f"{day} {exact[11:-1]} UTC"
    text = {"clock": f"{clock} UTC", "exact": title}.get(style, f"{day} {clock} UTC")
    if style == "ago":
        text = ago_text((datetime.now(UTC) - value).total_seconds())
    return Markup(f'<time datetime="{exact}" data-style="{style}" title="{title}">{text}</time>')  # noqa: S704 - digits


def minute(value: datetime) -> Markup:
    """Return a time to the minute, for many of them in a table."""
    text = rfc3339(value)[:16]
    return Markup(f"<time datetime={text}Z data-style=minute>{text.replace('T', ' ')}</time>")  # noqa: S704 - digits


def message(text: str) -> Markup:
    """Return a message of the control plane for a page: its times in the viewer's zone, its field as words."""
    parts = _TIME.split(text.replace("target_time ", "The target time ", 1))
    return Markup("").join(_time_or_text(part) for part in parts)


def _time_or_text(text: str) -> str:
    try:
        return time(datetime.fromisoformat(text), "exact") if _TIME.fullmatch(text) else text
    except ValueError:  # the user typed something like a time
        return text


@cache
def _environment() -> Environment:
    loader = FileSystemLoader(str(files("ramet.console").joinpath("templates")))
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        time=time,
        minute=minute,
        message=message,
        beginning=beginning,
        bytes=bytes_text,
        seconds=seconds_text,
        size=size_text,
    )
    functions = (
        shown_status,
        status_of,
        status_reason,
        is_down,
        restore_warning,
        replica_status,
        replica_status_reason,
        connections,
        program_connections,
        steps_of,
        title_of,
        seconds_of,
        data_as_of,
        again_path,
        address,
        pooler_host,
        may_restore,
        pool_of,
    )
    environment.globals.update({function.__name__: function for function in functions})
    environment.globals.update(asset=asset_path, utc_text=rfc3339, version=__version__, type_names=_TYPES)
    return environment
