"""A duty that fails for one service goes on with the others: the fault is logged, and not in every round again."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ramet.errors import Error

_AGAIN_SECONDS = 60.0
_MOST_REMEMBERED = 10_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Faults:
    """The faults of one duty, and when that of which service was logged last."""

    duty: str
    _logged_at: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def contained(self, subject: str) -> Iterator[None]:
        """Log whatever the body raises, with the id of the service or read replica set that it is about."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - a tenant can cause it, and must not stop the duty for other tenants
            self._log(subject, error)

    def _log(self, subject: str, error: Exception) -> None:
        now = time.monotonic()
        if now - self._logged_at.get(subject, -_AGAIN_SECONDS) < _AGAIN_SECONDS:
            return
        if len(self._logged_at) >= _MOST_REMEMBERED:
            self._logged_at.clear()
        self._logged_at[subject] = now
        is_known = isinstance(error, (Error, OSError))
        level = logging.WARNING if is_known else logging.ERROR
        _log.log(level, "duty %s failed for %s: %s", self.duty, subject, error, exc_info=None if is_known else error)
