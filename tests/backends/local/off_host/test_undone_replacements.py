"""Data that replaces a service's reaches the archive only once that is not undone any more."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from harness.waiting import eventually
from ramet.archive.wal import WalArchive
from ramet.backends.interface.values import Server, Source
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.off_host import archive as off_host
from ramet.backends.local.off_host import base_uploads, shipping
from ramet.backends.local.off_host.archive import LocalArchive
from ramet.backends.local.off_host.progress import BaseProgress, read_progress
from ramet.errors import Unavailable
from tests.backends.local.forks import append, exchange, paths_of, rows_of, run, snapshot
from tests.backends.local.off_host.test_archive import archived, switch
from tests.backends.local.off_host.test_fetch import archive, based, forked_from, ship

__all__ = ["archive"]
Exchanged = tuple[Server, Server, str]


def first(act: Callable[[], object], then: Callable[..., Any]) -> Callable[..., Any]:
    """Return `then`, with `act` before its first call."""
    acts = [act]

    def both(*arguments: Any) -> Any:
        while acts:
            acts.pop()()
        return then(*arguments)

    return both


def undo(backend: LocalBackend, server: Server, exchanged: Exchanged) -> None:
    """Undo an exchange as the steps of a restore do."""
    copy, previous, first_id = exchanged
    backend.replacements.close(server)
    backend.replacements.withdraw_timeline(server, previous)
    backend.replacements.move_data(server, copy, [first_id])
    backend.replacements.move_data(previous, server)
    run(backend, server)
    backend.servers.destroy(copy.service_id)


@pytest.mark.parametrize("at", ["base backup", "WAL"])
def test_what_an_undone_replacement_brought_never_reaches_the_archive(
    backend: LocalBackend, parent: Server, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The service is replaced after the archive has found that nothing changes it."""
    kept, _ = snapshot(backend, parent)
    based(backend, archive, parent)
    append(backend, parent, 1)
    done = list[Exchanged]()

    def replaces() -> None:
        exchanged = exchange(backend, parent, kept)
        run(backend, parent)
        switch(backend, parent)
        done.append(exchanged)

    monkeypatch.setattr(off_host, "is_due", lambda *_: True)
    with monkeypatch.context() as patched:
        if at == "WAL":
            patched.setattr(shipping, "_other_files", first(replaces, shipping._other_files))
        else:
            patched.setattr(base_uploads.BaseUpload, "_chosen", first(replaces, base_uploads.BaseUpload._chosen))

        def is_replaced() -> bool:
            with contextlib.suppress(Unavailable):
                archive.maintain(parent, paused=False, timeout_seconds=60)
            return bool(done) and not archive.is_sending(parent)

        eventually(is_replaced)
    undo(backend, parent, done[0])
    append(backend, parent, 2)
    ship(backend, archive, parent)
    eventually(lambda: not archive.is_sending(parent))
    assert {base.timeline for base in archive.holdings(parent).base_backups} == {1}
    assert {name[:8] for name in WalArchive(archive._bucket(), parent.service_id).names()} == {"00000001"}
    newest = archive.holdings(parent).base_for(None)
    assert newest is not None
    assert rows_of(backend, forked_from(backend, archive, Source(parent, base_backup_id=newest.id)).server) == [1, 2]


def test_the_archive_goes_on_when_a_replaced_service_is_opened(
    backend: LocalBackend, parent: Server, archive: LocalArchive
) -> None:
    """Also while the copy, which the disk may refuse to remove, is still there."""
    kept, _ = snapshot(backend, parent)
    based(backend, archive, parent)
    copy, _previous, _first_id = exchange(backend, parent, kept)
    run(backend, parent)
    with pytest.raises(Unavailable, match="is being replaced"):
        archive.maintain(parent, paused=False, timeout_seconds=60)
    backend.replacements.adopt(parent, copy)
    backend.replacements.open(parent)
    append(backend, parent, 2)

    def has_base() -> bool:
        newest = read_progress(paths_of(backend, parent), BaseProgress).newest
        archive.maintain(parent, paused=False, timeout_seconds=60)
        return newest is not None and newest.begin_segment.startswith("00000002")

    eventually(has_base)
    archived(archive, parent)
