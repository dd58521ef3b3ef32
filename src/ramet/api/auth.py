"""Credentials: the API key of a request, whether it belongs to the project in the path, and what its role may do."""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Any

from litestar.connection import ASGIConnection, Request
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

from ramet import acting
from ramet.control import recording
from ramet.control.origin import is_same_origin
from ramet.control.projects import Projects
from ramet.errors import Forbidden, Unauthorized
from ramet.model.keys import ApiKey
from ramet.model.passwords import Secret
from ramet.model.rights import allows, not_allowed

AnyConnection = ASGIConnection[Any, Any, Any, Any]


def key_guard(projects: Projects) -> Guard:
    """Return the guard that requires a key of the project in the path with the right to the operation.

    It keeps the key for the handler.
    """

    async def guard(connection: AnyConnection, handler: BaseRouteHandler) -> None:
        # Reads never wait otherwise. Without this turn of the event loop, connections that are being served would
        # delay those that are not accepted yet.
        await asyncio.sleep(0)
        public_key, secret = credentials(connection.headers.get("authorization", ""))
        try:
            key = projects.authenticate(public_key, secret)
        except Unauthorized:
            recording.claim(public_key)
            raise
        acting.note_key(key.public_key, key.name, key.project_id)
        if connection.scope.get("method") in recording.CHANGING and not is_same_origin(connection.headers):
            # Browsers keep Basic credentials, and add them to forms that pages of other sites send.
            raise Forbidden(
                "FORBIDDEN",
                "This request came from a page of another site",
                "Send it with a program, or from a page of this host.",
            )
        project_id = connection.path_params.get("project_id", key.project_id)
        if project_id != key.project_id:
            # The same answer whether that project exists or not.
            raise Forbidden(
                "FORBIDDEN",
                f"This API key does not belong to project {project_id[:64]!r}",
                "Use a key of that project; GET /projects returns the project of a key.",
            )
        operation = str(getattr(handler, "operation_id", ""))
        if connection.scope.get("method") != "OPTIONS" and not allows(key.role, operation):
            raise not_allowed(key.role, operation)
        connection.scope["auth"] = key
        recording.begin(connection.scope)

    return guard


def recorder(projects: Projects) -> Callable[[Request[Any, ApiKey, Any]], Awaitable[None]]:
    """Return what runs after a response, and records now and then when its key was used."""

    async def record(request: Request[Any, ApiKey, Any]) -> None:
        key = request.scope.get("auth")
        if key is not None and projects.is_use_due(key):
            await recording.beside(projects.record_use, key)

    return record


def credentials(header: str) -> tuple[str, Secret]:
    """Return public key and secret of an Authorization header. Raises Unauthorized.

    Basic carries base64 of public:secret; Bearer the same, or public:secret as it is.
    """
    scheme, _, value = header.partition(" ")
    pair = None
    if scheme.lower() in ("basic", "bearer"):
        pair = _decoded(value.strip())
        if scheme.lower() == "bearer" and ":" in value:
            pair = value.strip()
    public_key, colon, secret = (pair or "").partition(":")
    if not colon or not (public_key.isascii() and public_key.isprintable()):
        raise Unauthorized(
            "UNAUTHORIZED",
            "The request carries no API key" if not header else "The Authorization header contains no API key",
            "Send 'Authorization: Basic' with base64 of public_key:secret_key, or Bearer with the same.",
        )
    return public_key, Secret(secret)


def _decoded(value: str) -> str | None:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
