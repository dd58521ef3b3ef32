"""The client has a method for every operation of the interface, and sends it where the interface has it."""

import inspect
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ramet.client import ApiError, Client
from ramet.client.http_connection import Answer
from ramet.endpoints import BASE_PATH
from ramet.model.environment import Environment
from ramet.model.fork import ForkStrategy
from ramet.model.passwords import Secret
from tests.answers import Answering

INTERFACE = Path(__file__).parents[1] / "openapi.json"
HELPERS = ("close", "path", "project_path", "call", "send", "make", "rotate", "pages", "iterate_services")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLES: dict[str, object] = {
    "strategy": ForkStrategy.NOW,
    "environment": Environment.DEV,
    "password": Secret("x"),
    "source_password": Secret("x"),
    "secret_key": Secret("x"),
    "begin": NOW,
    "end": NOW,
    "replica_count": 0,
    "cpu_millis": "500",
    "memory_gbs": "2",
}


def operations() -> dict[tuple[str, str], str]:
    """Return the name of each operation by its method and its path."""
    document = json.loads(INTERFACE.read_text())
    base = document["servers"][0]["url"]
    return {
        (method.upper(), base + path): one["operationId"]
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    }


def sample_arguments(verb: Callable[..., object]) -> dict[str, Any]:
    """Return samples of the arguments that a method must be given."""
    needed = [one for one in inspect.signature(verb).parameters.values() if one.default is inspect.Parameter.empty]
    named = [one.name for one in needed if one.kind is not inspect.Parameter.VAR_KEYWORD]
    return {name: SAMPLES.get(name, "a123456789") for name in named}


def test_every_operation_of_the_interface_has_a_method() -> None:
    sent: list[tuple[str, str]] = []

    def record(method: str, path: str, *_: object) -> Answer:
        sent.append((method, BASE_PATH + path.partition("?")[0]))
        return Answer(400, b'{"code": "NO", "message": "No."}')

    known = operations()
    answering = Answering(record)
    with Client(f"http://x{BASE_PATH}", "p123456789", "key", "secret", transport=answering) as client:
        for name, verb in inspect.getmembers(client, inspect.ismethod):
            if name not in HELPERS and not name.startswith(("_", "wait")):
                _refused(verb)
        _refused(client.list_operations, service_id="a123456789")
    assert sorted({_operation(one, known) for one in sent}) == sorted(known.values())


def _refused(verb: Callable[..., object], **more: object) -> None:
    with pytest.raises(ApiError, match="No"):
        verb(**sample_arguments(verb), **more)


def _operation(sent: tuple[str, str], known: dict[tuple[str, str], str]) -> str:
    method, path = sent
    for (its_method, its_path), name in known.items():
        if method == its_method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", its_path), path):
            return name
    return f"{method} {path} is no operation"
