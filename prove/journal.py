"""A client that appends numbered rows whatever happens to its server, and knows which of them must be there."""

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field

import psycopg

from harness.instance import connect


@dataclass
class Journal:
    """Rows 1, 2, 3 … one transaction each. `acknowledged` holds the numbers whose commit was confirmed."""

    port: int
    password: str
    acknowledged: list[int] = field(default_factory=list)
    tried: int = 0
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Make the table, and begin."""
        with connect(self.port, self.password) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS ledger (n bigint PRIMARY KEY, at timestamptz)")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(30)

    def faults(self, rows: Collection[int], since: int = 0) -> list[str]:
        """Say what is wrong with the rows of this server or of a fork of it.

        The first `since` acknowledged rows must be there. Of all rows up to the last one there, those acknowledged
        must be there: what was committed later cannot come without what was committed before.
        """
        present, last = set(rows), max(rows, default=0)
        lost = set(self.acknowledged[:since]) - present
        holes = {number for number in list(self.acknowledged) if number <= last} - present
        found = [f"{len(lost)} acknowledged rows are lost, the first is {min(lost)}"] if lost else []
        found += [f"{len(holes - lost)} rows are missing before row {last}"] if holes - lost else []
        return found + ([f"row {last} was never written"] if last > self.tried else [])

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._append()
            except psycopg.Error:
                self._stopping.wait(0.05)

    def _append(self) -> None:
        with connect(self.port, self.password) as connection:
            while not self._stopping.is_set():
                number = self.tried = self.tried + 1
                connection.execute("INSERT INTO ledger VALUES (%s, clock_timestamp())", (number,))
                self.acknowledged.append(number)
                time.sleep(0.002)


def rows_of(port: int, password: str) -> list[int]:
    """Return the numbers in the ledger of a service."""
    with connect(port, password) as connection:
        return [int(n) for (n,) in connection.execute("SELECT n FROM ledger ORDER BY n").fetchall()]
