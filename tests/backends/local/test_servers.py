"""Stopping a server."""

from dataclasses import replace

import pytest

from harness.ports import free_port
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.process import postgres
from ramet.backends.local.server import instances


def test_a_server_is_stopped_that_listens_elsewhere_than_is_recorded(
    backend: LocalBackend, parent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is after the restore of an older backup of the store."""
    monkeypatch.setattr(instances, "_OPEN_WITHIN_SECONDS", 0.2)
    backend.servers.stop(replace(parent, port=free_port()))
    assert postgres.running(backend.instances.paths(parent.service_id)) is None
