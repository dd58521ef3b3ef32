"""The load of a proof: pgbench, and a client that appends numbered rows and notes each acknowledgement."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from prove.ground import Ground, Running


@dataclass
class Ledger:
    """Appends rows, one transaction each. `acknowledged` is the number of the last row whose commit was confirmed."""

    parent: Running
    began_at: datetime
    acknowledged: int = 0
    fault: BaseException | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Append rows until `stop` is called."""
        try:
            with self.parent.connect() as connection:
                while not self._stopping.wait(0.002):
                    number = self.acknowledged + 1
                    connection.execute("INSERT INTO ledger VALUES (%s, clock_timestamp())", (number,))
                    self.acknowledged = number
        except BaseException as fault:  # noqa: BLE001 - the thread's edge: the proof asks for it
            self.fault = fault

    def stop(self) -> None:
        """Let it end after the row that it is at."""
        self._stopping.set()


@contextlib.contextmanager
def load(ground: Ground, parent: Running, scale: int, clients: int, rate: int) -> Iterator[Ledger]:
    """Fill the parent, then keep it busy while the body runs."""
    command = [ground.pgbench, "-h", "localhost", "-p", str(parent.service.port), "-U", "tsdbadmin"]
    environment = {"PATH": os.environ.get("PATH", ""), "PGPASSWORD": parent.password}
    subprocess.run([*command, "-i", "-q", "-s", str(scale), "tsdb"], env=environment, check=True, capture_output=True)
    with parent.connect() as connection:
        connection.execute("CREATE TABLE ledger (n bigint PRIMARY KEY, at timestamptz)")
    busy = [*command, "-n", "-c", str(clients), "-T", "86400", *(["-R", str(rate)] if rate else []), "tsdb"]
    ledger = Ledger(parent, datetime.now(UTC))
    thread = threading.Thread(target=ledger.run)
    with Path(os.devnull).open("wb") as nowhere:
        pgbench = subprocess.Popen(busy, env=environment, stdout=nowhere, stderr=nowhere)
        thread.start()
        try:
            yield ledger
            if pgbench.poll() is not None or ledger.fault is not None:
                raise AssertionError(f"the load ended early: pgbench {pgbench.poll()}, ledger {ledger.fault}")
        finally:
            ledger.stop()
            thread.join(30)
            pgbench.terminate()
            pgbench.wait(30)
