"""The log: one line a record on standard error, key=value, times in UTC; and where this thread is in a trace."""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

_QUIET = ("alembic", "httpcore", "httpcore2", "httpx", "httpx2", "uvicorn")
TRACE_KEY = "traceparent"
"""The key in the stored state of an operation."""
trace_parent: ContextVar[str] = ContextVar("trace_parent", default="")
"""The span that this thread or task works for, as W3C Trace Context writes it; empty without traces."""


class LineFormatter(logging.Formatter):
    """Writes a record as one line; a trace becomes a quoted value in it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        parts = [time, f"level={record.levelname.lower()}", f"from={record.name}"]
        parts.append(f"message={json.dumps(record.getMessage(), ensure_ascii=False)}")
        if record.exc_info:
            parts.append(f"trace={json.dumps(self.formatException(record.exc_info), ensure_ascii=False)}")
        return " ".join(parts)


def start_logging(level: str) -> None:
    """Send all logs of this process to standard error, from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
