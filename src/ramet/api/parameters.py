"""Query parameters of requests that change something: a mistyped `dry_run` must not make a real fork."""

from collections import Counter
from functools import cache
from urllib.parse import parse_qsl

from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from ramet.api.auth import AnyConnection
from ramet.errors import Invalid

_READING = ("GET", "HEAD", "OPTIONS")
_SHOWN_CHARACTERS = 60
_SHOWN_NAMES = 5


def check_parameters(connection: AnyConnection, handler: BaseRouteHandler) -> None:
    """Refuse query parameters that the operation does not know, or that stand there twice. Raises Invalid.

    Where nothing is changed unknown ones are ignored: clients send what other servers of this interface know.
    """
    query = connection.scope["query_string"]
    if not query or connection.scope.get("method") in _READING:
        return
    sent = Counter(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    known = _known(handler)
    if unknown := [name for name in sent if name not in known]:
        remedy = f"It knows {', '.join(known)}." if known else "It knows none."
        raise Invalid("UNKNOWN_PARAMETER", f"The operation has no query parameter {_shown(unknown)}", remedy)
    if repeated := [name for name, count in sent.items() if count > 1]:
        raise Invalid("REPEATED_PARAMETER", f"The query parameter {_shown(repeated)} is repeated", "Send it once.")


@cache
def _known(handler: BaseRouteHandler) -> tuple[str, ...]:
    fields = handler.parsed_fn_signature.parameters.values()
    declared = [(field.name, field.kwarg_definition) for field in fields]
    return tuple(found.name or name for name, found in declared if isinstance(found, QueryParameter))


def _shown(names: list[str]) -> str:
    more = ", …" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(repr(name[:_SHOWN_CHARACTERS]) for name in names[:_SHOWN_NAMES]) + more
