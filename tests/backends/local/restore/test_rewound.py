"""Services that were rewound: the first segment of their timeline begins with a page of the one before."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.restore import snapshots
from ramet.backends.local.wal.locate import WAL_DIRECTORY
from ramet.model.metrics import TIMELINE
from tests.backends.local.forks import append, fork, paths_of, rows_of, run, snapshot
from tests.backends.local.rewinds import prepared, rewind

HISTORY = "00000002.history"


def stopped(backend: LocalBackend, server: Server) -> str:
    """Take a snapshot of a service that is stopped for that; return its id."""
    backend.servers.stop(server)
    snapshot_id, _ = snapshot(backend, server, paused=True)
    run(backend, server)
    return snapshot_id


def as_of_earlier_release(backend: LocalBackend, server: Server, first: str) -> None:
    """Leave the history of a rewound service where earlier releases had it: in its data directory alone."""
    paths = paths_of(backend, server)
    for directory in (paths.archive, snapshots.data_of(paths, first) / WAL_DIRECTORY):
        (directory / HISTORY).unlink(missing_ok=True)
    assert (paths.data / WAL_DIRECTORY / HISTORY).exists()


@pytest.mark.parametrize("is_upgraded", [False, True], ids=["new", "upgraded"])
@pytest.mark.parametrize("taken", [stopped, pytest.param(prepared, marks=pytest.mark.root)])
def test_a_rewound_service_is_forked_from_its_first_snapshot_and_rewound_to_it(
    backend: LocalBackend, parent: Server, taken: Callable[[LocalBackend, Server], str], is_upgraded: bool
) -> None:
    append(backend, parent, 1)
    checkpoint = taken(backend, parent)
    append(backend, parent, 2)
    first = rewind(backend, parent, checkpoint)
    if is_upgraded:
        as_of_earlier_release(backend, parent, first)
    target = append(backend, parent, 3)[0]
    append(backend, parent, 4)
    assert rows_of(backend, fork(backend, parent, first).server) == [1]
    assert rows_of(backend, fork(backend, parent, first, target).server) == [1, 3]
    rewind(backend, parent, first)
    assert rows_of(backend, parent) == [1]
    # The timeline that it has left can still be restored to.
    assert rows_of(backend, fork(backend, parent, first, target).server) == [1, 3]


def test_maintenance_archives_the_history_that_an_earlier_release_has_not(
    backend: LocalBackend, parent: Server
) -> None:
    first = rewind(backend, parent, stopped(backend, parent))
    as_of_earlier_release(backend, parent, first)
    backend.servers.maintain(parent, 10.0, datetime.now(UTC))
    paths = paths_of(backend, parent)
    assert (paths.archive / HISTORY).read_bytes() == (paths.data / WAL_DIRECTORY / HISTORY).read_bytes()


def test_what_is_measured_of_a_rewound_service_is_on_another_timeline(backend: LocalBackend, parent: Server) -> None:
    """Where its LSN is greater than before, as after a reset, nothing else tells that it has not written that much."""

    def timeline() -> float:
        measured = backend.host.measure(parent)
        assert measured is not None
        return measured[TIMELINE]

    checkpoint, found = stopped(backend, parent), [timeline()]
    for _ in range(2):
        rewind(backend, parent, checkpoint)
        found.append(timeline())
    assert found == [1, 2, 3]
