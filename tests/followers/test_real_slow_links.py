"""A standby behind a slow link: the base copy shows its progress, and the service how far behind it is."""

import re
from collections.abc import Iterator

import pytest

from harness.waiting import eventually
from ramet.api.schemas.services import Service
from ramet.client import Client
from ramet.model.passwords import Secret
from tests.followers.conftest import PASSWORD, url_of
from tests.followers.test_real_followers import append, shows
from tests.sources import Link, Source, open_link

_SECONDS = 300.0
_MIB = 1024**2
_LEDGER = "SELECT n FROM ledger ORDER BY n"
_WRITE = "SELECT pg_logical_emit_message(false, 'test', repeat('x', 4 * 1024 * 1024))"


@pytest.fixture
def slow(newest_source: Source) -> Iterator[Link]:
    """A link to the source, through which 16 KiB pass every 10 milliseconds until a test lets it go faster."""
    with open_link(newest_source.own_port) as link:
        link.pause_seconds = 0.01
        yield link


def test_a_slow_link_shows_the_progress_of_the_copy_and_then_the_lag(
    client: Client, newest_source: Source, slow: Link
) -> None:
    source, url = newest_source, url_of(newest_source).replace(f":{newest_source.own_port}/", f":{slow.port}/")
    made = client.follow_database("far-away", url, Secret(PASSWORD))
    seen: set[int] = set()

    def is_progressing() -> bool:
        found = client.list_operations(service_id=made.service_id).operations
        seen.update(int(one[1]) for each in found if (one := re.search(r"\((\d+) bytes\)", each.progress)))
        return len(seen - {0}) > 1

    eventually(is_progressing, lambda: f"the progress of the copy: {seen}")
    slow.pause_seconds = 0.0
    client.wait_ready(made.service_id, timeout_seconds=_SECONDS)
    eventually(lambda: lag(client, made) == (0, 0.0), "it has caught up")

    slow.pause_seconds = 0.1
    append(source, 101)
    with source.connect() as connection:
        for _ in range(4):
            connection.execute(_WRITE)
    append(source, 102)
    eventually(lambda: is_far_behind(client, made), lambda: f"the lag: {lag(client, made)}")
    assert (102,) not in shows(made.endpoint.port, _LEDGER)
    slow.pause_seconds = 0.0
    eventually(lambda: lag(client, made) == (0, 0.0), lambda: f"the lag: {lag(client, made)}")
    assert (102,) in shows(made.endpoint.port, _LEDGER)

    slow.cut()
    append(source, 103)
    eventually(lambda: (103,) in shows(made.endpoint.port, _LEDGER), "it follows again when the link was cut")
    client.delete_service(made.service_id)


def lag(client: Client, service: Service) -> tuple[int | None, float | None]:
    following = client.get_service(service.service_id).metadata.following
    assert following is not None
    return following.lag_bytes, following.lag_seconds


def is_far_behind(client: Client, service: Service) -> bool:
    size, seconds = lag(client, service)
    return (size or 0) > _MIB and (seconds or 0) > 0
