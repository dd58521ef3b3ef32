"""The log of a pooler or a balancer that runs has a bound, and an error that cites it reads the end of it only."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.pooler import pooler
from ramet.backends.local.pooler.pgbouncer import LOG
from ramet.backends.local.process.daemon import Daemon

_LONG_BYTES = 5 * 1024**2


@pytest.mark.parametrize("kind", [pooler.POOLER, pooler.BALANCER])
def test_a_long_log_is_truncated_under_the_process_that_appends_to_it(
    backend: LocalBackend, parent: Server, kind: str
) -> None:
    home = backend.instances.paths(parent.service_id).root / kind
    backend.instances.account.make_directory(home)
    backend.servers._due_at.clear()
    with (home / LOG).open("ab", buffering=0) as log:
        os.truncate(home / LOG, _LONG_BYTES)
        backend.servers.maintain(parent, 0.5, datetime.now(UTC))
        log.write(b"next")
    assert (home / LOG).read_text() == "next"


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_no_file_is_truncated_through_a_link_in_place_of_a_log(
    backend: LocalBackend, parent: Server, link: Callable[[Path, Path], None]
) -> None:
    home = backend.instances.paths(parent.service_id).root / pooler.POOLER
    others = home.with_name("others")
    backend.instances.account.make_directory(home)
    others.write_bytes(bytes(_LONG_BYTES))
    (home / LOG).unlink(missing_ok=True)
    link(home / LOG, others)
    backend.servers._due_at.clear()
    backend.servers.maintain(parent, 0.5, datetime.now(UTC))
    assert others.stat().st_size == _LONG_BYTES
    (home / LOG).unlink()
    others.unlink()


def test_the_last_lines_are_read_from_the_end(tmp_path: Path) -> None:
    (tmp_path / LOG).write_text("x" * 200_000 + "\nlast\n")
    found = Daemon(tmp_path).last_lines(LOG)
    assert found.endswith("\nlast")
    assert len(found) < 100_000
