"""What Litestar keeps in memory of heads that it has parsed: the last 1024 of each kind, however long they are."""

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from litestar import Litestar

_LONGEST_KEPT_BYTES = 2048
_PARSERS = (
    ("litestar._parsers", "parse_query_string"),
    ("litestar._parsers", "parse_cookie_string"),
    ("litestar._kwargs.extractors", "create_query_default_dict"),
    ("litestar._asgi.routing_trie.traversal", "parse_path_params"),
)


def _kept_parsers() -> Iterator[Any]:
    for module, name in _PARSERS:
        with suppress(ImportError, AttributeError):  # they are private: another version may not have them
            yield getattr(import_module(module), name)


KEPT_PARSERS = tuple(_kept_parsers())


def forget_long_head(app: Litestar, scope: Any) -> None:
    """Forget what was parsed of all heads if this one is long: whoever can connect chooses what they contain."""
    parsed = [scope["path"], scope["query_string"], *(value for name, value in scope["headers"] if name == b"cookie")]
    if sum(map(len, parsed)) > _LONGEST_KEPT_BYTES:
        for parser in (*KEPT_PARSERS, getattr(app.asgi_router, "handle_routing", None)):
            with suppress(AttributeError):  # another version may not have it, or keep nothing
                parser.cache_clear()
