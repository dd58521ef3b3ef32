"""`/metrics`: who may read what of it, and the text for Prometheus.

A key of a project reads the metrics of that project's services. The token of the operator, or this host where a setting
says so, reads those of all services and of Ramet itself.
"""

import asyncio
import hmac
import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder

from ramet import acting
from ramet.api.auth import credentials
from ramet.control.plane import Plane
from ramet.control.projects import Projects
from ramet.endpoints import is_loopback
from ramet.errors import Forbidden, Invalid, Unauthorized, Unavailable
from ramet.model.rights import RIGHTS_OF, Right
from ramet.monitoring.instruments import Instruments
from ramet.monitoring.service_collector import service_metrics
from ramet.monitoring.work_collector import store_up, work_metrics
from ramet.operations.worker import Worker

_SHORTEST_TOKEN = 16
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Access:
    """Who may read everything: whoever has the token in a file, and with `loopback` this host itself."""

    token_file: Path | None
    loopback: bool

    def token(self) -> str | None:
        """Return the token; the file is read each time, so that it can be replaced. Raises Invalid for a short one."""
        if self.token_file is None:
            return None
        token = self.token_file.read_text(errors="replace").strip()
        if len(token) < _SHORTEST_TOKEN or not (token.isascii() and token.isprintable()):
            raise Invalid(
                "INVALID_SETTING",
                f"RAMET_METRICS_TOKEN_FILE must contain {_SHORTEST_TOKEN} or more visible ASCII characters",
                f"Make one with: openssl rand -hex 32 > {self.token_file}",
            )
        return token


@dataclass(frozen=True)
class Asker:
    """Who sent a request, by its headers (in lower case) and by the address of its connection."""

    headers: Any
    address: str

    @property
    def is_this_host(self) -> bool:
        """Tell whether a program on this host sent it, and no page that a browser shows, nor a proxy that says so."""
        host = str(self.headers.get("host", ""))
        name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
        is_passed_on = any(self.headers.get(each) for each in (*_FORWARDED, "origin", "sec-fetch-site"))
        return is_loopback(self.address) and is_loopback(name) and not is_passed_on


@dataclass(frozen=True)
class Scrape:
    """What a process shows of itself and, with `has_services`, of all services.

    One scrape of each project reads the store at a time, and one of everything.
    """

    plane: Plane
    projects: Projects
    worker: Worker
    instruments: Instruments
    access: Access
    has_services: bool = True
    _turns: dict[str | None, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock), repr=False)

    def text(self, asker: Asker) -> tuple[bytes, str]:
        """Return the text and its content type. Raises Unauthorized, and Forbidden for a key where no services are."""
        return self._text_of(self._project_of(asker), asker)

    def _text_of(self, project_id: str | None, asker: Asker) -> tuple[bytes, str]:
        encode, content_type = choose_encoder(str(asker.headers.get("accept", "")))
        if project_id is not None and not self.has_services:
            raise Forbidden("FORBIDDEN", "This process has no metrics of services", "Ask the one that serves HTTP.")
        registry = CollectorRegistry()
        with self._turns[project_id]:
            found = list(self._everything() if project_id is None else service_metrics(self.plane, project_id))
        registry.register(_Collected(found))
        return encode(registry), content_type

    def route(self) -> HTTPRouteHandler:
        """Return the handler of HTTP."""

        @get("/metrics", include_in_schema=False)
        async def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
            """Metrics in the text format of Prometheus, made in a thread of the project whose key it is."""
            asker = Asker(request.headers, request.client.host if request.client else "")
            project_id = await asyncio.to_thread(self._project_of, asker)
            text, content_type = await asyncio.to_thread(self._text_of, project_id, asker)
            return Response(text, headers={"Content-Type": content_type, "Cache-Control": "no-store"})

        return metrics

    def _project_of(self, asker: Asker) -> str | None:
        """Return the project whose services may be read; None for everything."""
        header = str(asker.headers.get("authorization", ""))
        if not header and self.access.loopback and asker.is_this_host:
            return None
        scheme, _, value = header.partition(" ")
        token = self._token()
        if token and scheme.lower() == "bearer" and hmac.compare_digest(value.strip().encode(), token.encode()):
            return None
        if not header:
            raise Unauthorized(
                "UNAUTHORIZED",
                "The request carries neither the token of the operator nor an API key",
                "Send 'Authorization: Bearer' with the token of RAMET_METRICS_TOKEN_FILE or public_key:secret_key.",
            )
        key = self.projects.authenticate(*credentials(header))
        acting.note_key(key.public_key, key.name, key.project_id)
        if Right.READ_PROJECT not in RIGHTS_OF[key.role]:
            message = f"A key with the role {key.role} may not read the metrics of its project"
            raise Forbidden("FORBIDDEN", message, "Use a key with another role.")
        return key.project_id

    def _token(self) -> str | None:
        try:
            return self.access.token()
        except (OSError, Invalid) as error:
            _log.warning("the token of metrics cannot be read, so nobody has it: %s", error)
            return None

    def _everything(self) -> Iterator[Metric]:
        yield from self.instruments.registry.collect()
        try:
            found = [*work_metrics(self.plane.store, self.worker)]
            found += service_metrics(self.plane, None) if self.has_services else ()
        except Unavailable:
            self.instruments.scrapes_failed.inc()
            found = []
        yield store_up(bool(found))
        yield from found


@dataclass(frozen=True, eq=False)
class _Collected:
    found: list[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.found
