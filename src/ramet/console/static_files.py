"""The style sheets, scripts and icon, under an address that changes with their content, so that browsers cache them."""

import hashlib
from functools import cache
from pathlib import Path

from litestar import Response, Router
from litestar.datastructures import CacheControlHeader
from litestar.params import FromPath
from litestar.static_files import create_static_files_router

from ramet.console.context import read
from ramet.errors import NotFound

_DIRECTORY = Path(__file__).parent / "static"
_YEAR_SECONDS = 31_536_000


@cache
def _digest() -> str:
    content = b"".join(file.read_bytes() for file in sorted(_DIRECTORY.iterdir()))
    return hashlib.sha256(content).hexdigest()[:12]


def asset_path(name: str) -> str:
    """Return the address of a file."""
    return f"/console/static/{_digest()}/{name}"


def static_files_router() -> Router:
    """Return the routes of the files as they are now."""
    caching = CacheControlHeader(public=True, max_age=_YEAR_SECONDS, immutable=True)
    return create_static_files_router(f"/static/{_digest()}", [_DIRECTORY], cache_control=caching)


@read("/static/{digest:str}/{name:str}", sync_to_thread=False)
def other_version(digest: FromPath[str], name: FromPath[str]) -> Response[None]:
    """Redirect from the address of another version: the page that names it came from another release."""
    if not (_DIRECTORY / Path(name).name).is_file():
        raise NotFound("NOT_FOUND", f"There is no file {name[:100]!r}")
    return Response(None, status_code=307, headers={"Location": asset_path(name), "Cache-Control": "no-store"})
