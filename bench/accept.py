"""How fast a fork is accepted while ten others are being made: part of `batch`."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

from bench.api import Timed
from bench.instance import Instance

_BUSY = 10
_EVERY_SECONDS = 0.1


def accepted_while_busy(running: Instance, parent: Timed, wanted: int) -> list[float]:
    """Ask for so many forks in turn while ten are under way all the time; return the milliseconds of each."""
    ended, taken = Event(), list[float]()

    def keep_one() -> None:
        api = running.api()
        while not ended.is_set():
            api.delete(api.fork(parent.service_id, "NOW").service_id)

    with ThreadPoolExecutor(_BUSY) as clients:
        busy = [clients.submit(keep_one) for _ in range(_BUSY)]
        try:
            api = running.api()
            time.sleep(1)
            for _ in range(wanted):
                begun = time.perf_counter()
                fork = api.ask_fork(parent.service_id)
                taken.append(1000 * (time.perf_counter() - begun))
                api.call("DELETE", f"/{fork['service_id']}")
                time.sleep(_EVERY_SECONDS)
        finally:
            ended.set()
        for client in busy:
            client.result()
    return taken
