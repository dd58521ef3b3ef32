"""The regular work on a real server."""

import os
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from harness.ports import free_port
from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.backend import LocalBackend
from ramet.backends.local.host import files
from ramet.backends.local.host.certificates import Issued
from ramet.backends.local.process import postgres
from ramet.backends.local.wal import digests
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, segments_in
from ramet.machine.tls import encrypted, offers_tls
from tests.backends.local.forks import append, paths_of, run, snapshot
from tests.backends.local.hosts import new_server
from tests.backends.local.segments import bytes_on_disk, write_segment


def test_what_was_archived_has_checksums_after_maintenance(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    append(backend, parent, 1)
    snapshot(backend, parent)
    archived = [segment.name for segment in segments_in(paths.archive)]
    assert archived
    backend.servers.maintain(parent, 10.0, datetime.now(UTC))
    assert set(archived) <= set(digests.digests(paths))


@pytest.mark.root
def test_only_a_segment_that_no_server_writes_into_again_loses_its_blank_end(each_backend: LocalBackend) -> None:
    """Where copies share no blocks, servers recycle what is placed in their pg_wal, with its holes."""
    server = new_server(each_backend.instances)
    paths = each_backend.instances.make_directories(server)
    archived = write_segment(paths.archive, Segment(1, 3))
    archived.write_bytes(archived.read_bytes())  # its blank end is written, as by PostgreSQL
    each_backend.servers.maintain(server, 10.0, datetime.now(UTC))
    assert set(digests.digests(paths)) == {archived.name}
    assert (bytes_on_disk(archived) < SEGMENT_BYTES) == each_backend.pool.driver.shares_blocks


class _Changing(dict[tuple[str, str], float]):
    """A dict to which another thread adds something whenever it is walked."""

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for key in super().__iter__():
            self[f"{key[0]}+", "log"] = 0.0
            yield key


def test_a_server_is_removed_while_maintenance_of_others_goes_on(backend: LocalBackend) -> None:
    due = _Changing({(one, "log"): 0.0 for one in ("gone000000", "blog000000")})
    replace(backend.servers, _due_at=due).destroy("gone000000")
    assert due.keys() == {("blog000000", "log")}


def test_a_short_budget_is_made_up_for_by_the_next_calls(backend: LocalBackend, parent: Server) -> None:
    paths = paths_of(backend, parent)
    for number in range(3):
        append(backend, parent, number)
        snapshot(backend, parent)
    for _ in range(2 * len(segments_in(paths.archive))):
        backend.servers.maintain(parent, 1e-4, datetime.now(UTC))
    assert {segment.name for segment in segments_in(paths.archive)} <= set(digests.digests(paths))


@pytest.mark.parametrize(("days", "is_kept"), [(13, True), (15, False)])
def test_log_files_are_too_old_by_the_time_that_maintenance_is_given(
    backend: LocalBackend, parent: Server, days: int, is_kept: bool
) -> None:
    log, now = paths_of(backend, parent).log, datetime.now(UTC)
    rotated, long_ago = log / "server-2000-01-01_000000.json", (now - timedelta(days=365)).timestamp()
    rotated.touch()
    os.utime(rotated, (long_ago, long_ago))
    backend.servers.maintain(parent, 0.5, datetime.fromtimestamp(long_ago, UTC) + timedelta(days=days))
    assert rotated.exists() == is_kept


def test_a_certificate_that_ends_is_replaced_under_the_server_its_pooler_and_its_balancer(
    backend: LocalBackend,
) -> None:
    server, pooler_port, balancer_port = _serving(backend)
    ports = (server.listen_port, pooler_port, balancer_port)
    ending = _put_certificate(backend, server, datetime.now(UTC) - timedelta(days=800))
    postgres.reload(paths_of(backend, server))
    backend.poolers.start([server], pooler_port)
    backend.replicas.start_balancer([server], balancer_port)
    eventually(lambda: {_served(port) for port in ports} == {ending.certificate})

    replace(backend.servers, _due_at={}).maintain(server, 0.5, datetime.now(UTC))
    renewed = (paths_of(backend, server).tls / "server.crt").read_text()
    assert renewed != ending.certificate
    eventually(lambda: {_served(port) for port in ports} == {renewed})

    by_a_killed_call = _put_certificate(backend, server, datetime.now(UTC))
    replace(backend.servers, _due_at={}).maintain(server, 0.5, datetime.now(UTC))
    eventually(lambda: {_served(port) for port in ports} == {by_a_killed_call.certificate})


def test_a_server_that_does_not_run_gets_no_certificate_from_maintenance(backend: LocalBackend, parent: Server) -> None:
    _put_certificate(backend, parent, datetime.now(UTC) - timedelta(days=800))
    ending = (paths_of(backend, parent).tls / "server.crt").read_text()
    backend.servers.stop(parent)
    replace(backend.servers, _due_at={}).maintain(parent, 0.5, datetime.now(UTC))
    assert (paths_of(backend, parent).tls / "server.crt").read_text() == ending


def _serving(backend: LocalBackend) -> tuple[Server, int, int]:
    """Return a server that serves with a pooler and a balancer before it, and their ports."""
    pooler_port, balancer_port = free_port(), free_port()
    server = new_server(backend.instances, pooler_port=pooler_port)
    backend.servers.initialize(server)
    run(backend, server)
    backend.servers.secure(server, is_new=True, neutralize=False)
    backend.servers.open(server)
    return server, pooler_port, balancer_port


def _put_certificate(backend: LocalBackend, server: Server, at: datetime) -> Issued:
    """Write a certificate that was issued at some time, as a call does that is killed before the server loads it."""
    issued = backend.instances.authority.issue(server.service_id, [server.host], at)
    files.write(paths_of(backend, server).tls / "server.key", issued.key)
    files.write(paths_of(backend, server).tls / "server.crt", issued.certificate)
    os.utime(paths_of(backend, server).tls / "server.crt", (time.time(), time.time()))  # the kernel's is earlier
    return issued


def _served(port: int) -> str:
    """Return the certificate that clients of an endpoint get, as PEM."""
    with socket.create_connection(("localhost", port)) as plain:
        assert offers_tls(plain)
        with encrypted(plain) as connection:
            return ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"")
