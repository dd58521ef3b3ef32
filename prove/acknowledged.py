"""Several clients that append numbered rows, and the file outside of the machine in which they note what came of it.

Each row is one transaction. The client asks for the WAL position inside the transaction and again after its commit was
confirmed, so the commit record lies between the two: that orders the transactions of all clients.
"""

import hashlib
import threading
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec
import psycopg

from harness.instance import connect
from ramet.model.snapshot import lsn_number

TABLE = "CREATE TABLE IF NOT EXISTS ledger (writer int, n bigint, content text, PRIMARY KEY (writer, n))"
_INSERT = "INSERT INTO ledger VALUES (%s, %s, %s) RETURNING pg_current_wal_insert_lsn()::text"
_AFTER = "SELECT pg_current_wal_insert_lsn()::text"
_PAUSE_SECONDS = 0.004

Key = tuple[int, int]


class Sent(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A row that was sent."""

    key: Key


class Done(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A row whose commit was confirmed at a time; its commit record lies between two positions in WAL."""

    key: Key
    at: datetime
    before: int
    after: int


def content_of(key: Key) -> str:
    """Return what the row with this key must contain."""
    return hashlib.sha256(repr(key).encode()).hexdigest()


@dataclass
class Writers:
    """The clients of one service. What they note is in `file`, one line each."""

    port: int
    password: str
    file: Path
    count: int = 3
    first: int = 1
    host: str = "localhost"
    faults: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Make the table, and begin."""
        with connect(self.port, self.password, host=self.host) as connection:
            connection.execute(TABLE)
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(self.count)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End them."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, writer: int) -> None:
        numbers = iter(range(self.first, 2**60))
        with self.file.open("ab") as file:
            while not self._stopping.is_set():
                try:
                    self._append(writer, numbers, file)
                except psycopg.Error:
                    self._stopping.wait(0.05)
                except Exception as fault:  # noqa: BLE001 - the thread's edge: the proof tells of it
                    self.faults.append(f"writer {writer} ended with {type(fault).__name__}: {fault}")
                    return

    def _append(self, writer: int, numbers: Iterator[int], file: IO[bytes]) -> None:
        with connect(self.port, self.password, host=self.host) as connection:
            while not self._stopping.wait(_PAUSE_SECONDS):
                key = (writer, next(numbers))
                self._note(file, Sent(key))
                before = connection.execute(_INSERT, (*key, content_of(key))).fetchall()[0][0]
                at = datetime.now(UTC)
                after = connection.execute(_AFTER).fetchall()[0][0]
                self._note(file, Done(key, at, lsn_number(before), lsn_number(after)))

    def _note(self, file: IO[bytes], line: Sent | Done) -> None:
        with self._lock:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()


@dataclass(frozen=True)
class Noted:
    """What clients sent, and what was confirmed to them."""

    sent: frozenset[Key]
    done: Mapping[Key, Done]

    def faults(self, rows: Mapping[Key, str], kept: frozenset[Key], promised: datetime | None) -> list[str]:
        """Say what is wrong with the rows of a restored service.

        `kept` are rows from before these clients: all must be there. What was confirmed before `promised` must be
        there, nothing that was not sent, and the rows are a prefix of the order of commits.
        """
        present = frozenset(rows)
        missing = [self.done[key] for key in self.done.keys() - present]
        must = [one.key for one in missing if promised is not None and one.at < promised]
        return [
            *_fault(kept - present, "rows of an earlier machine are lost"),
            *_fault(must, f"rows are lost that were confirmed before {promised}"),
            *_fault(present - self.sent - kept, "rows were never sent"),
            *_fault([key for key, content in rows.items() if content != content_of(key)], "rows have another content"),
            *_fault(self._holes(present, missing), "holes: later rows are there"),
        ]

    def _holes(self, present: frozenset[Key], missing: list[Done]) -> list[Key]:
        """Return the confirmed rows that are missing though a row that was committed later is there."""
        last = max((self.done[key].before for key in present if key in self.done), default=0)
        newest = dict[int, int]()
        for writer, number in present:
            newest[writer] = max(newest.get(writer, 0), number)
        return [one.key for one in missing if one.after <= last or one.key[1] < newest.get(one.key[0], 0)]

    def lost_seconds(self, rows: Container[Key], lost_at: datetime) -> float:
        """Return how long before the loss of the machine the first row was confirmed that is missing."""
        first = min((one.at for key, one in self.done.items() if key not in rows), default=lost_at)
        return max(0.0, (lost_at - first).total_seconds())


def read_notes(file: Path) -> Noted:
    """Return what a file of notes says."""
    lines = msgspec.json.Decoder(Sent | Done).decode_lines(file.read_bytes()) if file.exists() else []
    sent = {line.key for line in lines if isinstance(line, Sent)}
    return Noted(frozenset(sent), {line.key: line for line in lines if isinstance(line, Done)})


def _fault(keys: "frozenset[Key] | list[Key]", what: str) -> list[str]:
    return [f"{len(keys)} {what}, the first is {min(keys)}"] if keys else []


def rows_of(connection: "psycopg.Connection[tuple[object, ...]]") -> dict[Key, str]:
    """Return the rows of a service."""
    found = connection.execute("SELECT writer, n, content FROM ledger").fetchall()
    return {(int(str(writer)), int(str(n))): str(content) for writer, n, content in found}
