"""What was read through the API server, and is kept for a while."""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Value = TypeVar("_Value")
_MOST = 1000


@dataclass(frozen=True)
class Kept(Generic[_Value]):
    """The values that were read last, with the times of the monotonic clock at which they were read."""

    _known: dict[Hashable, tuple[float, _Value]] = field(default_factory=dict)

    def of(self, key: Hashable, seconds: float, read: Callable[[], _Value]) -> _Value:
        """Return the value of a key that is not older than that; read it if there is none."""
        known = self._known.get(key)
        if known is None or time.monotonic() - known[0] >= seconds:
            known = time.monotonic(), read()
            self._known.pop(key, None)
            self._known[key] = known
            for old in list(self._known)[:-_MOST]:
                self._known.pop(old, None)
        return known[1]

    def last(self, key: Hashable, default: _Value) -> _Value:
        """Return the value of a key however old it is."""
        return self._known.get(key, (0.0, default))[1]
