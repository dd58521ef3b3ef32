"""Replacing data is right whatever ends the host, or the server, at any moment of it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host import files
from ramet.backends.local.servers import LocalServers
from ramet.backends.local.sql import carried_passwords
from ramet.errors import Unavailable
from tests.backends.local.hosts import new_server


class Killed(Exception):
    """Stands for the end of the process."""


def test_passwords_are_read_in_another_try_when_the_server_ends_first(backend: LocalBackend, parent: Server) -> None:
    copy = new_server(backend.instances)
    backend.instances.make_directories(copy)
    beside = backend.instances.paths(copy.service_id)

    class EndsFirst(LocalServers):
        """Servers that are on their way down when they are to be stopped."""

        def halt(self, server: Server, before: object = None, *, must_run: bool = False) -> None:
            super().halt(server)

    ending = EndsFirst(backend.instances, backend.pool, backend.servers.poolers)
    with pytest.raises(Unavailable, match="ended before the passwords of its roles were read"):
        replace(backend.replacements, servers=ending).release(parent, copy)
    assert not carried_passwords.are_noted(beside)
    backend.replacements.release(parent, copy)
    assert carried_passwords.are_noted(beside)


def test_a_move_whose_first_run_was_killed_before_its_flush_is_flushed_by_the_second(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = new_server(backend.instances), new_server(backend.instances)
    giver = backend.instances.make_directories(source)
    giver.data.mkdir()
    taker = backend.instances.paths(target.service_id)

    def kill(path: Path) -> None:
        raise Killed

    monkeypatch.setattr(files, "flush", kill)
    with pytest.raises(Killed):
        backend.replacements.move_data(source, target)
    flushed: list[Path] = []
    monkeypatch.setattr(files, "flush", flushed.append)
    backend.replacements.move_data(source, target)
    assert taker.data.is_dir()
    assert {giver.root, giver.snapshots, taker.root, taker.snapshots} <= set(flushed)


def test_a_service_whose_directory_is_lost_can_be_replaced(backend: LocalBackend) -> None:
    lost, copy = new_server(backend.instances), new_server(backend.instances)
    shutil.rmtree(backend.instances.make_directories(lost).root)
    backend.instances.make_directories(copy)
    backend.replacements.release(lost, copy)
