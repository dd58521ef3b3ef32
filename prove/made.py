"""What a proof has asked for, and how it asks."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prove.site import Site


@dataclass
class Made:
    """A service that was asked for, and what must be in it."""

    service_id: str
    port: int
    password: str
    strategy: str = ""
    since: int = 0
    target: datetime | None = None
    doomed: bool = False


def ask(site: Site, method: str, path: str, body: object = None) -> Any:
    """Send a request that must be accepted; return the body of its answer."""
    answer = site.call(method, path, body)
    if answer.status_code >= 300:
        raise AssertionError(f"{method} {path} {body}: {answer.status_code} {answer.text}")
    return answer.json() if answer.content else None
