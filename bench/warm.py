"""`warm`: a fork that was made in advance, from the request to the answer that has its address and its password.

Beside it, in turns: the smallest request about the same service, and a fork as of now of a service with as much data
that keeps none.
"""

import time

from bench.api import Api, Timed, select_one
from bench.bare import bare
from bench.data import fill
from bench.instance import instance
from bench.options import Options
from bench.report import Report, percentile

_SIZE_MB = 100
_KEPT = 5
_REPEATS, _QUICK_REPEATS = 60, 10
_AGE_SECONDS = 3600
_EMPTY = "empty"


def bench_warm(options: Options) -> Report:
    """Claims of warm forks that are exactly of now, and of ones that may be older."""
    report = Report("warm")
    size_mb = (options.sizes or (_SIZE_MB,))[0]
    with instance(options.data, *options.drivers[:1]) as running, bare() as means:
        api = running.api()
        warm, cold = (api.create(name) for name in ("warm", "cold"))
        for parent in (warm, cold):
            fill(means.programs, parent.service, size_mb)
        api.call("PUT", f"/{warm.service_id}/warmForks", {"size": _KEPT, "max_age_seconds": _AGE_SECONDS})
        taken: dict[str, list[float]] = {}
        for _ in range(options.repeats or (_QUICK_REPEATS if options.quick else _REPEATS)):
            _turn(api, warm.service_id, cold.service_id, taken)
    for method, found in taken.items():
        report.add(method, size_mb, found)
        report.add(f"{method}:p99", size_mb, [percentile(found, 0.99)])
    for method in ("claim", "claim_aged"):
        report.ratio(f"{method}_vs_{_EMPTY}", report.median(method), report.median(_EMPTY))
        report.ratio(f"now_vs_{method}", report.median("now"), report.median(method))
    report.notes.append("claim_aged asks for no commit of the parent: max_age_seconds was given.")
    return report


def _turn(api: Api, warm_id: str, cold_id: str, taken: dict[str, list[float]]) -> None:
    """Measure each method once, while nothing else is under way."""
    for method, age in (("claim", {}), ("claim_aged", {"max_age_seconds": _AGE_SECONDS})):
        while not _claim(api, warm_id, {"fork_strategy": "NOW", **age}, method, taken):
            pass
    api.await_warm(warm_id, _KEPT)
    made: Timed = api.fork(cold_id, "NOW")
    taken.setdefault("now", []).append(made.ready_ms)
    api.delete(made.service_id)


def _claim(api: Api, warm_id: str, body: object, method: str, taken: dict[str, list[float]]) -> bool:
    """Measure one claim; False where the service was just vacuumed, so that no warm fork was given."""
    api.await_warm(warm_id, _KEPT)
    empty, begun = _empty(api, warm_id), time.perf_counter()
    fork = api.call("POST", f"/{warm_id}/forkService", body)
    answered = time.perf_counter()
    is_warm = fork["status"] == "READY"
    if is_warm:
        select_one(fork)
        taken.setdefault(_EMPTY, []).append(empty)
        taken.setdefault(method, []).append(1000 * (answered - begun))
        taken.setdefault(f"{method}:queried", []).append(1000 * (time.perf_counter() - begun))
    api.delete(fork["service_id"])
    return bool(is_warm)


def _empty(api: Api, service_id: str) -> float:
    begun = time.perf_counter()
    api.call("GET", f"/{service_id}")
    return 1000 * (time.perf_counter() - begun)
