"""The settings of the platform's sessions, which override those that tenants have set for a database.

A tenant may `ALTER DATABASE ... SET` every setting that users may change. Their names are queried, and each is set to
its built-in default, unless this module names another value.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

_OURS = {
    "search_path": "pg_catalog",
    "role": "none",
    "client_encoding": "UTF8",
    "session_replication_role": "replica",
    "row_security": "off",
    "lock_timeout": "5s",
    "statement_timeout": "60s",
    "synchronous_commit": "local",
    "escape_string_warning": "off",
    "check_function_bodies": "off",
    "jit": "off",
    "timezone": "UTC",
    "datestyle": "ISO",
    "local_preload_libraries": "",
    "session_preload_libraries": "",
    # Statements that carry verifiers must not reach the log, not even when they fail.
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
    "pg_stat_statements.track": "none",
    # A database can be opened even if the library of its TimescaleDB version is not installed any more.
    "timescaledb.disable_load": "on",
}
_EVENT_TRIGGERS_SINCE = 17  # can be switched off
# Settings are queried nowhere from the view pg_settings, which every role may update, and so lock.
# Tenants choose how much ANALYZE reads. Settings with NO_RESET_ALL belong to a single transaction.
_COMPILED_IN = """
SELECT name, boot_val FROM pg_show_all_settings()
WHERE context = 'user' AND boot_val IS NOT NULL AND name NOT LIKE '%.%' AND name <> 'default_statistics_target'
AND NOT 'NO_RESET_ALL' = ANY(pg_settings_get_flags(name))
"""


def ours(major: int) -> dict[str, str]:
    """Return the settings of this module: they suffice in the database postgres, which no tenant can change."""
    return _OURS | ({"event_triggers": "off"} if major >= _EVENT_TRIGGERS_SINCE else {})


def compiled_in(connection: psycopg.Connection[tuple[Any, ...]]) -> dict[str, str]:
    """Return the settings that users may change, with the built-in defaults of the server."""
    return {str(name): str(value) for name, value in connection.execute(_COMPILED_IN).fetchall()}


@dataclass(frozen=True)
class Known:
    """The known settings: of each major version, and of single servers that differ.

    After a minor upgrade, servers that were not restarted reject connections that name new settings.
    """

    of_major: dict[int, Mapping[str, str]] = field(default_factory=dict)
    of_service: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, major: int, service_id: str) -> Mapping[str, str] | None:
        """Return the settings of a server; None when they are not known."""
        return self.of_service.get(service_id, self.of_major.get(major))

    def remember(self, major: int, service_id: str, settings: Mapping[str, str]) -> None:
        """Remember the settings of a server."""
        with self._lock:
            if self.of_major.setdefault(major, settings) != settings:
                self.of_service[service_id] = settings


def as_options(settings: Mapping[str, str]) -> str:
    """Return settings as the `options` of a connection."""
    escaped = {name: value.replace("\\", r"\\").replace(" ", r"\ ") for name, value in settings.items()}
    return " ".join(f"-c {name}={value}" for name, value in escaped.items())
