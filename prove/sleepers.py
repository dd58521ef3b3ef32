"""A service that falls asleep while processes are killed: its next client is served, and finds every row."""

import threading
from collections import Counter
from dataclasses import dataclass, field

import psycopg

from harness.instance import Instance, connect
from prove.made import Made

_SLEEP_AFTER_SECONDS = 5
_READY_SECONDS = 120.0


@dataclass
class Sleeper:
    """A service that stays. A trial writes a row; a client that comes while Ramet is killed must get it."""

    instance: Instance
    made: Made
    rows: int = 0
    touched: bool = False
    clients: list[threading.Thread] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def fall_asleep(self) -> None:
        """Let it be idle from now on, until it falls asleep, and send a client when it is about to."""
        self._write()
        self._set(_SLEEP_AFTER_SECONDS)
        self._send(_SLEEP_AFTER_SECONDS)

    def toggle(self) -> None:
        """Give its endpoint to the other process, or back to the server, under a row that was just written."""
        self._write()
        with self.instance.client() as client:
            sleeps = client.get_service(self.made.service_id).metadata.sleep_after_seconds is not None
        self._set(None if sleeps else _SLEEP_AFTER_SECONDS, wait=False)

    def faults(self, counts: Counter[str]) -> list[str]:
        """Return what does not hold: a client that was refused, or rows that are missing."""
        if not self.touched:
            return []
        for thread in self.clients:
            thread.join(_READY_SECONDS)
        counts["clients of a service that falls asleep"] += len(self.clients)
        found = [f"a client was refused: {one}" for one in self.refused]
        with self.instance.client() as client:
            client.wait_ready(self.made.service_id, timeout_seconds=_READY_SECONDS)
        seen = self._count()
        found += [] if seen == self.rows else [f"the service that sleeps has {seen} rows, not {self.rows}"]
        return found

    def forget(self) -> None:
        """Look no more at the trial."""
        self.touched = False
        self.clients.clear()
        self.refused.clear()

    def _send(self, delay_seconds: float) -> None:
        def ask() -> None:
            ended.wait(delay_seconds)
            try:
                self._count()
            except (psycopg.Error, AssertionError) as error:
                self.refused.append(str(error))

        ended = threading.Event()
        self.clients.append(threading.Thread(target=ask))
        self.clients[-1].start()

    def _write(self) -> None:
        self.touched = True
        with connect(self.made.port, self.made.password) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS slept (n int)")
            connection.execute("INSERT INTO slept VALUES (1)")
        self.rows += 1

    def _count(self) -> int:
        with connect(self.made.port, self.made.password) as connection:
            row = connection.execute("SELECT count(*) FROM slept").fetchone()
        return int(row[0]) if row else 0

    def _set(self, seconds: int | None, *, wait: bool = True) -> None:
        path = f"/services/{self.made.service_id}"
        self.instance.ask("POST", f"{path}/setSleep", {"sleep_after_seconds": seconds})
        if wait:
            with self.instance.client() as client:
                client.wait_ready(self.made.service_id, timeout_seconds=_READY_SECONDS)
