"""What servers say of themselves. One program in a pod tells all that several duties want to know, and it is kept.

Each program that is run in a pod goes through the API server, and starts processes beside PostgreSQL.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic

from ramet.backends.kubernetes import names
from ramet.backends.kubernetes.api import Api
from ramet.backends.kubernetes.resources import Pod
from ramet.backends.local.server.usage import REPLAY_LAG, SESSIONS, TOTALS, values_of
from ramet.backends.local.sql.read_only_access import IS_MARKED
from ramet.errors import Unavailable
from ramet.model.metrics import key_of

_TIMEOUT_SECONDS = 10.0
_REST_SECONDS = 10.0
_USEC = 1_000_000
_FACTS = f"""
SELECT pg_snapshot_xmax(pg_current_snapshot()),
       CASE WHEN pg_is_in_recovery() THEN 0 ELSE pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') END,
       EXISTS (SELECT FROM pg_roles r WHERE NOT r.rolsuper AND {IS_MARKED.format(role="r.oid")}),
       EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming'),
       (SELECT last_failed_wal FROM pg_stat_archiver
        WHERE last_failed_time > coalesce(last_archived_time, stats_reset) + interval '1 minute')
"""  # noqa: S608 - all of it is ours
_SQL = f"SET statement_timeout = '2s'; {_FACTS}; {SESSIONS}; {TOTALS}; SELECT ({REPLAY_LAG});"
# Of control groups of version 2, else of version 1: microseconds of CPU, bytes of memory, bytes of the volume.
_PROGRAM = f"""
psql -XAtq -v ON_ERROR_STOP=1 -U postgres -d postgres -f - || exit
cd /sys/fs/cgroup
if [ -e cpu.stat ]; then sed -n 's/^usage_usec //p' cpu.stat; cat memory.current
else echo $(($(cat cpuacct/cpuacct.usage) / 1000)); cat memory/memory.usage_in_bytes; fi
df -B1 --output=used {names.DATA_DIRECTORY} | tail -n 1
"""


@dataclass(frozen=True)
class Report:
    """What a server said at a time of the monotonic clock."""

    taken_at: float
    next_xid: int
    wal_bytes: int
    has_read_only_roles: bool
    receives_wal: bool
    unarchived: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Reports:
    """The newest report of each server. `pod_of` returns the primary's pod of a service."""

    api: Api
    pod_of: Callable[[str], Pod | None]
    _known: dict[str, Report] = field(default_factory=dict)
    _failed: dict[str, tuple[float, Unavailable]] = field(default_factory=dict)

    def of(self, service_id: str, max_age_seconds: float) -> Report:
        """Return a report that is not older than that; ask for one if there is none.

        Raises Unavailable; then it is not asked for again for some seconds.
        """
        now, known, failed = monotonic(), self._known.get(service_id), self._failed.get(service_id)
        if known is not None and now - known.taken_at <= max_age_seconds:
            return known
        if failed is not None and now - failed[0] < min(_REST_SECONDS, max_age_seconds):
            raise failed[1]
        try:
            report = self._known[service_id] = _parsed(service_id, self._ask(service_id), now)
        except Unavailable as error:
            self._failed[service_id] = now, error
            raise
        self._failed.pop(service_id, None)
        return report

    def _ask(self, service_id: str) -> str:
        pod = self.pod_of(service_id)
        if pod is None or not pod.runs:
            raise Unavailable("SERVER_UNREACHABLE", f"The server of service {service_id} is not running")
        return self.api.run(pod.metadata.name, ["sh", "-c", _PROGRAM], _SQL, timeout_seconds=_TIMEOUT_SECONDS)

    def forget(self, service_id: str) -> None:
        """Forget a service that is gone."""
        self._known.pop(service_id, None)
        self._failed.pop(service_id, None)


def _parsed(service_id: str, text: str, taken_at: float) -> Report:
    try:
        facts, sessions, totals, (lag,), *counters = (line.split("|") for line in text.splitlines())
        next_xid, wal_bytes, is_marked, receives, unarchived = facts
        cpu_usec, memory, storage = (float(n) for (n,) in counters)
        own = values_of([float(n) for n in sessions], [float(n) for n in totals], float(lag) if lag else None)
        values = {
            **own,
            key_of("ramet_cpu_seconds_total"): cpu_usec / _USEC,
            key_of("ramet_memory_bytes"): memory,
            key_of("ramet_storage_bytes"): storage,
        }
        return Report(taken_at, int(next_xid), int(wal_bytes), is_marked == "t", receives == "t", unarchived, values)
    except ValueError as error:
        message = f"The pod of service {service_id} did not say what was asked"
        raise Unavailable("REPORT_UNREADABLE", message, text[:200]) from error
