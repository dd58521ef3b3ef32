"""What is asked of a service's log, and what it answers: entries newest first, in pages whose cursors stay true."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

PAGE = 500
SEVERITIES = (
    "DEBUG5",
    "DEBUG4",
    "DEBUG3",
    "DEBUG2",
    "DEBUG1",
    "INFO",
    "NOTICE",
    "LOG",
    "WARNING",
    "ERROR",
    "FATAL",
    "PANIC",
)
_SECRETS = (
    (re.compile(r"(password\s*=?\s*)'(?:[^']|'')*'", re.IGNORECASE), r"\1'***'"),
    (re.compile(r"(password\s*=\s*)[^\s'\"]+", re.IGNORECASE), r"\1***"),
    (re.compile(r"(postgres(?:ql)?://[^\s:@/]*):[^\s@/]*@", re.IGNORECASE), r"\1:***@"),
    (re.compile(r"SCRAM-SHA-256\$[^\s']+"), "***"),
    # What the parser quotes of a statement: names and signs are shown, values and all that follows them are not.
    (re.compile(r'( at or near ")(?![A-Za-z_]+"$|[^\w\s\'"$]+"$).*"$', re.DOTALL), r'\1***"'),
)


@dataclass(frozen=True)
class LogEntry:
    """One message of a server. `severity` is PostgreSQL's own word."""

    at: datetime
    severity: str
    message: str


@dataclass(frozen=True)
class LogQuery:
    """Which entries: from `since` up to and including `until`, with all of `search` in them, of one of `severities`.

    `cursor` is what an earlier page ended with. None and empty mean no bound.
    """

    since: datetime | None = None
    until: datetime | None = None
    search: Sequence[str] = ()
    severities: Sequence[str] = ()
    cursor: str | None = None
    limit: int = PAGE

    def wants(self, entry: LogEntry) -> bool:
        """Tell whether an entry is among those asked for; letters' case makes no difference."""
        if self.until is not None and entry.at > self.until:
            return False
        if self.severities and entry.severity.upper() not in {severity.upper() for severity in self.severities}:
            return False
        message = entry.message.casefold()
        return all(text.casefold() in message for text in self.search)

    def is_past(self, at: datetime) -> bool:
        """Tell whether this entry, and with it all older ones, is before `since`."""
        return self.since is not None and at < self.since


@dataclass(frozen=True)
class LogPage:
    """Entries, newest first, and the cursor of the next page; None on the last one."""

    entries: list[LogEntry]
    cursor: str | None = None


def redacted(message: str) -> str:
    """Return a message without what looks like a password in it."""
    for pattern, replacement in _SECRETS:
        message = pattern.sub(replacement, message)
    return message
