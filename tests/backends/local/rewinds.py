"""Rewinds of real services by the steps of a backend alone."""

from dataclasses import replace

from harness.waiting import eventually
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from tests.backends.local.forks import recover, run, snapshot
from tests.backends.local.hosts import new_server


def prepared(backend: LocalBackend, server: Server) -> str:
    """Take a snapshot that is recovered in advance; return its id."""
    snapshot_id, _ = snapshot(backend, server)
    eventually(lambda: backend.restore.prepare_snapshot(server, snapshot_id, 0.5, 0) is None)
    return snapshot_id


def rewind(backend: LocalBackend, server: Server, snapshot_id: str, *, boots: bool = False) -> str:
    """Replace the data of a service by that of its snapshot; return the id of its first snapshot, when it runs.

    `boots`: a server of the copy runs before, as for a restore.
    """
    replacements, copy = backend.replacements, replace(new_server(backend.instances), port=0)
    captured = backend.restore.capture(copy, Source(server, snapshot_id=snapshot_id))
    assert captured is not None
    recover(backend, copy, replacements.reserve_timeline(copy, server.service_id, captured))
    eventually(lambda: replacements.leave_timeline(copy, server.service_id, 0.5) is None)
    if boots:
        run(backend, copy)
    replacements.close(copy)
    first, _ = snapshot(backend, copy, paused=True)
    replacements.release(server, copy)
    replacements.move_data(server, new_server(backend.instances))
    replacements.move_data(copy, server, [first])
    run(backend, server)
    replacements.adopt(server, copy)
    backend.servers.destroy(copy.service_id)
    return first
