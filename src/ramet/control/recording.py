"""The act that a request is, for the records of changes: who, from where, what, and how it ended.

What changes the store is recorded in its own transaction (`ramet.acting`). Here the rest is recorded: what was refused,
and what changed nothing. Of refusals only so many are recorded that a flood of them does not fill the disk.
"""

import asyncio
import ipaddress
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from litestar.types import Message, Receive, Scope, Send

from ramet import acting
from ramet.acting import Act
from ramet.control.plane import Plane
from ramet.errors import Unavailable
from ramet.ids import is_id, new_id

UNRECORDED = {"recorded": False}
"""The option of handlers that change nothing, although their method is one of those that change."""
VERB = "operation"
"""The verb of a handler, where that is not its operation id."""
VERBS = "verbs"
"""The verbs of a handler for several changes, by the `change` in its path."""
REQUEST_ID = b"x-request-id"
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
"""The methods of requests that may change anything."""
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}")
_PUBLIC_KEY = re.compile(r"RK[A-Z0-9]{18}")
_SUBJECTS = ("public_key", "webhook_id", "replica_set_id", "set_id", "snapshot_id", "service_id")
_log = logging.getLogger(__name__)
Network = IPv4Network | IPv6Network


@dataclass
class RefusalLimit:
    """Which refusals are recorded: a burst of each client and of all, then one from time to time.

    `omitted` counts those that were not; the next recorded one says how many.
    """

    burst: float = 100
    every_seconds: float = 60.0
    burst_of_all: float = 1000
    every_seconds_of_all: float = 10.0
    clock: Callable[[], float] = time.monotonic
    omitted: int = 0
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, client: str) -> int | None:
        """Return how many refusals were omitted before this one, which is recorded; None: omit this one, too."""
        with self._lock:
            own = self._take(client, self.burst, self.every_seconds)
            if not own or not self._take("", self.burst_of_all, self.every_seconds_of_all):
                self.omitted += 1
                return None
            omitted, self.omitted = self.omitted, 0
            return omitted

    def _take(self, name: str, burst: float, every_seconds: float) -> bool:
        now = self.clock()
        left, at = self._left.pop(name, (burst, now))
        left = min(burst, left + (now - at) / every_seconds)
        self._left[name] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > 10_000:
            self._left.popitem(last=False)
        return left >= 1


@dataclass(frozen=True)
class Recording:
    """What every request passes through. Paths that are not below `api_path` are those of the console.

    `trusted` are the proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.
    """

    plane: Plane
    api_path: str
    trusted: Sequence[Network] = ()
    limit: RefusalLimit = field(default_factory=RefusalLimit)

    async def record(
        self, app: Callable[[Any, Receive, Send], Any], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request with `app`, and record how it ends before the client knows."""
        headers = dict(scope["headers"])
        if headers.get(b"x-forwarded-proto") == b"https" and is_proxy(scope.get("client"), self.trusted):
            scope["scheme"] = "https"
        address = client_address(scope.get("client"), headers.get(b"x-forwarded-for", b""), self.trusted)
        if address is not None and scope.get("client"):
            scope["client"] = (address, scope["client"][1])  # type: ignore[index]
        via = "api" if scope["path"].startswith(self.api_path) else "console"
        act = Act(via=via, address=address, request_id=request_id(headers.get(REQUEST_ID, b"")))

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._settle(act, scope, message["status"])
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() != REQUEST_ID]
                message["headers"] = [*kept, (REQUEST_ID, (act.request_id or "").encode())]
            await send(message)

        with acting.acting(act):
            await app(scope, receive, recorded)

    async def _settle(self, act: Act, scope: Any, status: int) -> None:
        """Record what no transaction of the request has recorded. Then the act is over: nothing else is part of it."""
        if not act.verb and scope.get("route_handler") is not None and scope["method"] in CHANGING:
            describe(act, scope)
        outcome = _outcome(act, status)
        if act.verb and not (outcome in ("accepted", "unchanged") and act.recorded == "accepted"):
            await self._record(act, outcome)
        act.verb = ""

    async def _record(self, act: Act, outcome: str) -> None:
        if outcome in ("refused", "failed"):
            omitted = self.limit.admit(act.actor.id or act.address or "")
            if omitted is None:
                return
            act.fields = {**act.fields, **({"omitted_refusals": omitted} if omitted else {})}
        try:
            await beside(self.plane.record, outcome)
        except Unavailable as error:
            _log.warning("the outcome of %s (request %s) is not recorded: %s", act.verb, act.request_id, error)


async def beside(function: Callable[..., object], *given: object) -> None:
    """Call a function for the current act in a thread that its project does not wait for: all of those may be taken."""
    call = partial(copy_context().run, function, *given)
    with acting.acting(None):
        called = asyncio.get_running_loop().run_in_executor(None, call)
    await called


def claim(public_key: str) -> None:
    """Say of the current act which key a request names, before it is known whether it has the secret of the key."""
    if _PUBLIC_KEY.fullmatch(public_key):
        acting.note(fields={"public_key": public_key})


def begin(scope: Any) -> None:
    """Say of the current act what it is about to do, if it may change anything; from now on it is recorded."""
    act = acting.current()
    if act is not None and scope["method"] in CHANGING:
        describe(act, scope)


def describe(act: Act, scope: Any) -> None:
    """Say of an act what the handler of its request does, and to what."""
    handler, named = scope["route_handler"], scope.get("path_params", {})
    if not handler.opt.get("recorded", True):
        return
    verb = handler.opt.get(VERBS, {}).get(named.get("change")) or handler.opt.get(VERB)
    act.verb = verb or getattr(handler, "operation_id", None) or acting.verb_of(handler.fn)
    act.subject = act.subject or next((str(named[name]) for name in _SUBJECTS if name in named), None)
    project_id = str(named.get("project_id", ""))
    if act.project_id is None and is_id(project_id):
        act.project_id = project_id
    more = {name: str(value) for name, value in named.items() if name not in (*_SUBJECTS, "project_id")}
    act.fields = {**more, **act.fields}


def request_id(sent: bytes) -> str:
    """Return the request id that a client sent, if it is a sane one, or a new one."""
    text = sent.decode("latin-1")
    return text if _SANE_ID.fullmatch(text) else f"req-{new_id()}{new_id()}"


def client_address(peer: Any, forwarded: bytes, trusted: Sequence[Network]) -> str | None:
    """Return the address of the client: that of the peer, or the last one in X-Forwarded-For that is no trusted proxy.

    Each proxy appends the address that it has seen; what stands before the first one that is not trusted is a claim.
    """
    if not peer:
        return None
    address = str(peer[0])
    hops = [hop.strip() for hop in forwarded.decode("latin-1").split(",")] if forwarded else []
    while hops and _is_in(address, trusted):
        claimed = hops.pop()
        if _parsed(claimed) is None:
            break
        address = claimed
    return address


def is_proxy(peer: Any, trusted: Sequence[Network]) -> bool:
    """Tell whether a peer may say that its client came by https: it is trusted, or on this host."""
    parsed = _parsed(str(peer[0])) if peer else None
    return parsed is not None and (parsed.is_loopback or _is_in(str(peer[0]), trusted))


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in networks if network.version == parsed.version)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _outcome(act: Act, status: int) -> str:
    if status >= 500:
        return "failed"
    if status >= 400 or act.code is not None:
        return "refused"
    return "accepted" if act.recorded == "started" else "unchanged"
