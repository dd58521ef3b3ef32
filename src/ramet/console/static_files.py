"""Style, script and icon: read once, named by their content, so that browsers keep them for good."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from litestar import Response
from litestar.params import FromPath

from ramet.console.context import AnyRequest, read
from ramet.errors import NotFound

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class Asset:
    """One file as it is served; `path` changes with its content."""

    path: str
    content: bytes
    media_type: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return every file by its name."""
    found = {}
    for file in files("ramet.console").joinpath("static").iterdir():
        stem, dot, suffix = file.name.rpartition(".")
        content = file.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:12]
        path = f"/console/static/{digest}/{file.name}"
        if dot + suffix in _TYPES and stem:
            found[file.name] = Asset(path, content, _TYPES[dot + suffix])
    return found


def asset_path(name: str) -> str:
    """Return where a file is served."""
    return assets()[name].path


@read("/static/{digest:str}/{name:str}", sync_to_thread=False)
def static_file(request: AnyRequest, digest: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Answer with a file, to everybody."""
    asset = assets().get(name)
    if asset is None:
        raise NotFound("NOT_FOUND", "There is no such file")
    caching = _FOREVER if request.url.path == asset.path else "no-cache"
    return Response(asset.content, media_type=asset.media_type, headers={"Cache-Control": caching})
