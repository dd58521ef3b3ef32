"""What Litestar keeps in memory of heads that it has parsed: the last 1024 of each kind, however long they are."""

from typing import Any

from litestar import Litestar
from litestar._asgi.routing_trie.traversal import parse_path_params
from litestar._kwargs.extractors import create_query_default_dict
from litestar._parsers import parse_cookie_string, parse_query_string

KEPT_PARSERS = (parse_query_string, create_query_default_dict, parse_cookie_string, parse_path_params)
_LONGEST_KEPT_BYTES = 2048


def forget_long_head(app: Litestar, scope: Any) -> None:
    """Forget what was parsed of all heads if this one is long: whoever can connect chooses what they contain."""
    parsed = [scope["path"], scope["query_string"], *(value for name, value in scope["headers"] if name == b"cookie")]
    if sum(map(len, parsed)) > _LONGEST_KEPT_BYTES:
        for parser in (*KEPT_PARSERS, app.asgi_router.handle_routing):
            parser.cache_clear()
