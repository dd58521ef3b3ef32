"""The process that owns the endpoints of services that may sleep. It outlives Ramet, as the servers do.

It passes the bytes of each client to the client's server, and those of the server back. TLS and passwords are between
the two of them. While a server sleeps, its clients wait here: what they have sent is passed on when the server serves.
Ramet says over a socket of the file system which endpoints there are, and asks whose clients wait.

`python -m ramet.backends.local.endpoints.forwarder DIRECTORY [UID GID]` works in DIRECTORY, as that user.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from ramet.backends.local.endpoints.route import Absent, Route, now

CONTROL = "control"
_BACKLOG = 1024
_TENDED_EVERY_SECONDS = 0.5
_LONGEST_POLL_SECONDS = 30.0
_GOODBYE_SECONDS = 0.2  # for what was written to clients


class Forwarder:
    """All endpoints, and the requests of Ramet about them; each request is an object in one line, as its answer is."""

    def __init__(self) -> None:
        self._routes: dict[str, Route] = {}
        self._has_waiting = asyncio.Event()
        self._absent = Absent()
        self.is_unused = asyncio.Event()

    async def serve_control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with contextlib.suppress(ConnectionError):
            while not self.is_unused.is_set() and (line := await reader.readline()):
                writer.write(json.dumps(await self._answer(json.loads(line))).encode() + b"\n")
                await writer.drain()
        writer.close()

    async def tend(self) -> None:
        """Refuse clients that have waited for too long."""
        while True:
            await asyncio.sleep(_TENDED_EVERY_SECONDS)
            for route in self._routes.values():
                route.refuse_overdue(self._absent)

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._perform(**request)
        except OSError as error:
            return {"error": error.strerror or str(error)}

    async def _perform(self, do: str, **named: Any) -> dict[str, Any]:
        match do:
            case "serve":
                (await self._listening(named)).serve()
            case "hold":
                return {"held": (await self._listening(named)).hold()}
            case "keep":
                if named["service_id"] not in self._routes:
                    route = await self._listening(named)
                    route.is_asleep = named["is_asleep"]
            case "refuse" if named["service_id"] in self._routes:
                self._routes[named["service_id"]].refuse(named["message"], named["hint"])
            case "close" if named["service_id"] in self._routes:
                self._routes.pop(named["service_id"]).close()
                if not self._routes:
                    self.is_unused.set()
                return {"left": len(self._routes)}
            case "waiting":
                return {"services": await self._waiting(named["seconds"])}
            case "known":
                return {"services": sorted(self._routes)}
        return {}

    async def _listening(self, named: dict[str, Any]) -> Route:
        """Return the route of a service, which listens; one whose addresses have changed is made again."""
        service_id, addresses, port = named["service_id"], named["addresses"], named["port"]
        route = self._routes.get(service_id)
        if route is not None and (route.addresses, route.port) != (addresses, port):
            self._routes.pop(service_id).close()
            route = None
        if route is None:
            route = Route(addresses, port, named["server_port"], named["certificate"], self._has_waiting.set)
            loop = asyncio.get_running_loop()
            for each in listening_sockets(addresses, port):
                route.listeners.append(await loop.create_server(route.accept, sock=each, backlog=_BACKLOG))
            self._routes[service_id] = route
        route.server_port, route.certificate = named["server_port"], named["certificate"]
        return route

    async def _waiting(self, seconds: float) -> list[str]:
        """Return the services whose clients wait as soon as there are any, or none after some seconds."""
        deadline = now() + min(seconds, _LONGEST_POLL_SECONDS)
        self._absent.heard()
        try:
            while not (found := [key for key, route in self._routes.items() if route.is_wanted()]):
                self._has_waiting.clear()
                try:
                    await asyncio.wait_for(self._has_waiting.wait(), max(0.0, deadline - now()))
                except TimeoutError:
                    break
            return found
        finally:
            self._absent.heard()


def listening_sockets(addresses: list[str], port: int) -> list[socket.socket]:
    """Return sockets for the addresses of an endpoint; as in PostgreSQL, one that can be listened on is enough.

    Raises OSError when there is none.
    """
    found: list[socket.socket] = []
    failure: OSError | None = None
    for address in addresses:
        one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if one.family is socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address, port))
            found.append(one)
        except OSError as error:
            one.close()
            failure = error
    if not found:
        raise failure or OSError("no address")
    return found


async def run(home: Path) -> None:
    """Serve until there is no endpoint any more, or the process is ended."""
    forwarder, control = Forwarder(), home / CONTROL
    partial = control.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(forwarder.serve_control, partial)
    partial.rename(control)
    async with server:
        tending = asyncio.create_task(forwarder.tend())
        await forwarder.is_unused.wait()
        control.unlink(missing_ok=True)
        await asyncio.sleep(_GOODBYE_SECONDS)
        tending.cancel()


def main() -> None:
    """Give up root's rights, and run. What is imported from here on must be readable for that user."""
    home, *identity = sys.argv[1:]
    if identity:
        uid, gid = map(int, identity)
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    asyncio.run(run(Path(home)))


if __name__ == "__main__":
    main()
