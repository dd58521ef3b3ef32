"""Answers to the requests of a client without a server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ramet.client.http_connection import Answer


@dataclass(frozen=True)
class Answering:
    """A transport whose requests are answered by a function."""

    answer: Callable[[str, str, bytes | None, Mapping[str, str]], Answer]

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Return what the function returns."""
        return self.answer(method, path, body, headers)

    def close(self) -> None:
        """Do nothing: there is no connection."""
