"""Which site a request comes from: browsers add the credentials that they keep to those from other sites, too."""

from collections.abc import Mapping


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Tell whether one of our pages, or a program, sent a request.

    Browsers send `Sec-Fetch-Site` over TLS and to localhost; elsewhere `Origin` must name the host of the request.
    """
    if site := headers.get("sec-fetch-site"):
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")
