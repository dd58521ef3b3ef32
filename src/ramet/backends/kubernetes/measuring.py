"""What is measured of a server: by SQL, and by the kernel's counters in its pod."""

from ramet.backends.interface.values import Server
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.local.server.usage import measure_by_sql
from ramet.backends.local.sql import connections
from ramet.errors import Unavailable
from ramet.model.metrics import key_of

_DATA = "/var/lib/postgresql/data"
# Of control groups of version 2, else of version 1: seconds of CPU, bytes of memory, bytes of the volume.
_COUNTERS = f"""
cd /sys/fs/cgroup
if [ -e cpu.stat ]; then sed -n 's/^usage_usec //p' cpu.stat; cat memory.current
else echo $(($(cat cpuacct/cpuacct.usage) / 1000)); cat memory/memory.usage_in_bytes; fi
df -B1 --output=used {_DATA} | tail -n 1
"""
_USEC = 1_000_000


def measure(place: Place, server: Server) -> dict[str, float] | None:
    """Return the current measurements of a server; None when it does not serve."""
    pod = place.primary_pod(server.service_id)
    if pod is None or not pod.runs:
        return None
    try:
        with connections.connect(place.paths(server), statement_timeout="2s") as connection:
            found = measure_by_sql(connection)
        counters = place.api.run(pod.metadata.name, ["sh", "-c", _COUNTERS]).split()
    except Unavailable:
        return None
    cpu_usec, memory, storage = (float(each) for each in counters[:3])
    return {
        **found,
        key_of("ramet_cpu_seconds_total"): cpu_usec / _USEC,
        key_of("ramet_memory_bytes"): memory,
        key_of("ramet_storage_bytes"): storage,
    }
