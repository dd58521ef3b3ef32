"""Something that is done in another transaction while one has locked what both need: for stores on PostgreSQL."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from harness.waiting import eventually
from ramet.store.database import Store

_WAITING = sa.text("SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


class Beside:
    """Begins an act in a thread where another one calls a function, which goes on when the act waits for a lock."""

    def __init__(self, store: Store, act: Callable[[], object]) -> None:
        self._store, self._act = store, act
        self._pool = ThreadPoolExecutor(1)
        self._begun: Future[object] | None = None

    def begin_before(self, patch: pytest.MonkeyPatch, module: object, name: str) -> None:
        """Begin the act when the function is called first, before it does anything."""
        called: Callable[..., Any] = getattr(module, name)

        def interrupted(*given: Any, **named: Any) -> Any:
            self._begin()
            return called(*given, **named)

        patch.setattr(module, name, interrupted)

    def begin_after(self, patch: pytest.MonkeyPatch, module: object, name: str) -> None:
        """Begin the act when the function has been called first, and returns."""
        called: Callable[..., Any] = getattr(module, name)

        def interrupted(*given: Any, **named: Any) -> Any:
            answer = called(*given, **named)
            self._begin()
            return answer

        patch.setattr(module, name, interrupted)

    def result(self) -> object:
        """Return what the act returns, or raise what it raises."""
        assert self._begun is not None, "the act was not begun"
        self._pool.shutdown()
        return self._begun.result()

    def _begin(self) -> None:
        if self._begun is None:
            begun = self._begun = self._pool.submit(self._act)
            eventually(lambda: begun.done() or count_waiting(self._store) > 0, "an act that waits")


def count_waiting(store: Store) -> int:
    """Return how many sessions of a store wait for a lock."""
    with store.read() as tx:
        return tx.execute(_WAITING).rowcount
