"""The settings of PostgreSQL that a service may have of its own: their values are checked before PostgreSQL sees them.

What durability, restores, forks and the endpoint depend on is not here: WAL, checkpoints, the archive, replication,
memory that is reserved at the start, autovacuum itself, and whatever logs statements that hold passwords for certain.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

from ramet.errors import Invalid

_KEY = "parameters"
_NUMBER = re.compile(r"(-?\d{1,12}(?:\.\d{1,6})?) ?([A-Za-z]{1,3})?", re.ASCII)
_MOST = 2**31 - 1
_MOST_KIB, _MOST_MS = 2047 * 1024**2, 24 * 86_400_000
_LONGEST_BITS = 64
_KIB = {"kB": 1, "MB": 1024, "GB": 1024**2, "TB": 1024**3}
_MS = {"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SWITCH = ("on", "off")
_SAME = {"true": "on", "yes": "on", "1": "on", "false": "off", "no": "off", "0": "off"}

Value = str | int | float | bool


@dataclass(frozen=True)
class Parameter:
    """A setting: one of `choices`, or a number from `low` to `high`, or `off`, in `unit` where none is given.

    `units` are those that PostgreSQL accepts, with how many of `unit` each one is.
    """

    name: str
    low: float = 0
    high: float = _MOST
    unit: str = ""
    units: Mapping[str, float] = field(default_factory=dict)
    is_real: bool = False
    off: int | None = None
    choices: tuple[str, ...] = ()
    needs_restart: bool = False

    def checked(self, value: Value) -> str:
        """Return a value as PostgreSQL reads it. Raises Invalid."""
        text = _text_of(value)
        if self.choices:
            text = _SAME.get(text.lower(), text.lower()) if self.choices == _SWITCH else text.lower()
            if text in self.choices:
                return text
        elif (found := _NUMBER.fullmatch(text)) and (found[2] is None or found[2] in self.units):
            amount = float(found[1]) * (1 if found[2] is None else self.units[found[2]])
            is_whole = self.is_real or found[2] is not None or amount.is_integer()
            if is_whole and (amount == self.off or self.low <= amount <= self.high):
                bare = amount == self.off or found[2] is not None or self.unit not in self.units
                number = _plain(found[1])
                return number + (found[2] or "") if bare else f"{number}{self.unit}"
        raise Invalid(
            "INVALID_SETTING", f"{self.name} must be {self.range_text} (got {text[:40]!r})", "Send another value."
        )

    @property
    def range_text(self) -> str:
        """The values that it accepts, as words."""
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        between = f"between {self._shown(self.low)} and {self._shown(self.high)}"
        return between if self.off is None else f"{self.off}, or {between}"

    def _shown(self, amount: float) -> str:
        """Return an amount in the largest unit of which it is a whole number."""
        fitting = [
            (unit, amount / size) for unit, size in self.units.items() if amount and (amount / size).is_integer()
        ]
        unit, count = min(fitting, key=lambda one: one[1], default=("", amount))
        return f"{count:.12g}{unit}"


def _text_of(value: Value) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    is_long = isinstance(value, int) and value.bit_length() > _LONGEST_BITS  # Python would refuse to print it
    return "a long number" if is_long else str(value).strip()


def _plain(number: str) -> str:
    """Return a number without needless zeros: PostgreSQL reads the integer 0100 as octal."""
    return f"{(Decimal(number) + 0).normalize():f}"


_switch = partial(Parameter, choices=_SWITCH)
_real = partial(Parameter, is_real=True)
_memory = partial(Parameter, high=_MOST_KIB, unit="kB", units=_KIB)
_time = partial(Parameter, high=_MOST_MS, unit="ms", units=_MS)
_ALL = (
    _memory("work_mem", 64),
    _real("hash_mem_multiplier", 1, 1000),
    _memory("maintenance_work_mem", 1024),
    _memory("autovacuum_work_mem", 1024, off=-1),
    Parameter(
        "effective_cache_size", 1, _MOST_KIB / 8, unit="8kB", units={name: one / 8 for name, one in _KIB.items()}
    ),
    _real("random_page_cost", 0, 1_000_000),
    _real("seq_page_cost", 0, 1_000_000),
    Parameter("effective_io_concurrency", 0, 1000),
    Parameter("default_statistics_target", 1, 10_000),
    Parameter("max_parallel_workers_per_gather", 0, 64),
    Parameter("max_parallel_maintenance_workers", 0, 64),
    _switch("jit"),
    Parameter("plan_cache_mode", choices=("auto", "force_generic_plan", "force_custom_plan")),
    _switch("enable_partitionwise_join"),
    _switch("enable_partitionwise_aggregate"),
    # Shorter ones would lock the admin out, who could not change them any more.
    _time("statement_timeout", 100, off=0),
    _time("lock_timeout", 1, off=0),
    _time("idle_in_transaction_session_timeout", 1000, off=0),
    _time("idle_session_timeout", 10_000, off=0),
    _time("deadlock_timeout", 1),
    Parameter("autovacuum_naptime", 1, 86_400, "s", {"s": 1, "min": 60, "h": 3600, "d": 86_400}),
    Parameter("autovacuum_max_workers", 1, 16, needs_restart=True),
    Parameter("autovacuum_vacuum_threshold"),
    _real("autovacuum_vacuum_scale_factor", 0, 100),
    Parameter("autovacuum_vacuum_insert_threshold", off=-1),
    _real("autovacuum_vacuum_insert_scale_factor", 0, 100),
    Parameter("autovacuum_analyze_threshold"),
    _real("autovacuum_analyze_scale_factor", 0, 100),
    _time("autovacuum_vacuum_cost_delay", 0, high=100, is_real=True, off=-1),
    Parameter("autovacuum_vacuum_cost_limit", 1, 10_000, off=-1),
    _time("log_autovacuum_min_duration", off=-1),
    _time("log_min_duration_statement", off=-1),
    _time("log_min_duration_sample", off=-1),
    _real("log_statement_sample_rate", 0, 1),
    _switch("log_lock_waits"),
    _memory("log_temp_files", off=-1),
    _switch("log_connections"),
    _switch("log_disconnections"),
    _time("auto_explain.log_min_duration", off=-1),
    _switch("auto_explain.log_analyze"),
    _switch("auto_explain.log_buffers"),
    _switch("auto_explain.log_timing"),
    _switch("auto_explain.log_verbose"),
    _switch("auto_explain.log_nested_statements"),
    _real("auto_explain.sample_rate", 0, 1),
    _switch("track_io_timing"),
    Parameter("track_functions", choices=("none", "pl", "all")),
    # Read replicas have the most of each at any size, and must allow as many as their primary.
    Parameter("max_connections", 20, 500, needs_restart=True),
    Parameter("max_locks_per_transaction", 32, 128, needs_restart=True),
)
PARAMETERS: Mapping[str, Parameter] = {one.name: one for one in _ALL}


def parameters_of(service_settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of PostgreSQL that a service has of its own."""
    return dict(service_settings.get(_KEY, {}))


def with_parameters(service_settings: Mapping[str, Any], wanted: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a service with these of PostgreSQL."""
    others = {name: value for name, value in service_settings.items() if name != _KEY}
    return {**others, _KEY: dict(wanted)} if wanted else others


def changed(present: Mapping[str, str], changes: Mapping[str, Value | None]) -> dict[str, str]:
    """Return settings with some changed; None resets one. Raises Invalid."""
    for name in changes:
        if name not in PARAMETERS:
            raise Invalid(
                "UNKNOWN_SETTING",
                f"{name[:64]!r} is not among the settings that a service can have of its own",
                f"They are {', '.join(PARAMETERS)}.",
            )
    given = {name: PARAMETERS[name].checked(value) for name, value in changes.items() if value is not None}
    return {name: value for name, value in present.items() if name not in changes} | given
