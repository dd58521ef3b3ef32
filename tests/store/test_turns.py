"""Writers of SQLite take turns, in one process and in several."""

import threading
from pathlib import Path

import pytest

from ramet.errors import Unavailable
from ramet.store import turns
from ramet.store.turns import Turns


def test_writers_of_two_processes_take_turns(tmp_path: Path) -> None:
    one, other = (Turns(tmp_path / "turn") for _ in range(2))
    order: list[str] = []

    def take() -> None:
        with other.taken(patient=False):
            order.append("other")

    waiting = threading.Thread(target=take)
    with one.taken(patient=False):
        waiting.start()
        waiting.join(0.05)
        order.append("one")
    waiting.join()
    assert order == ["one", "other"]
    one.close()
    other.close()


def test_a_writer_waits_for_another_process_only_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BUSY_SECONDS", 0)
    one, other = (Turns(tmp_path / "turn") for _ in range(2))
    with one.taken(patient=False), pytest.raises(Unavailable, match="The store was busy"), other.taken(patient=False):
        raise AssertionError("both have the turn")
    one.close()
    with other.taken(patient=True):
        pass
    other.close()


def test_where_no_lock_file_can_be_made_the_turn_is_taken_without(tmp_path: Path) -> None:
    made = Turns(tmp_path / "missing" / "turn")
    with made.taken(patient=False):
        pass
    made.close()
