"""The machine of an upgraded service is lost: service and state before come back from the off-host archive."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.instance import Instance, connect, open_instance
from harness.waiting import eventually
from ramet.archive.object_store import open_bucket
from ramet.machine.installation import find_installations
from ramet.model.environment import Environment
from ramet.model.status import OperationStatus
from tests.recovery.archives import entries
from tests.upgrades.conftest import NEW, OLD

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Instance, Instance]]:
    """Two machines with the same archive, of which the first one runs."""
    (tmp_path / "nas").mkdir()
    old = str(find_installations().of(OLD).bin)
    with ExitStack() as stack:
        first, second = (stack.enter_context(open_instance(RAMET_PG_BIN=old)) for _ in range(2))
        first.environment["RAMET_ARCHIVE_URL"] = (tmp_path / "nas").as_uri()
        first.up()
        yield first, second


def rows(port: int, password: str) -> tuple[int, int]:
    """Return the number of rows of the ledger, and the major version of the server."""
    with connect(port, password) as connection:
        row = connection.execute("SELECT count(*), current_setting('server_version_num')::int / 10000 FROM ledger")
        found: tuple[int, int] = row.fetchone() or (0, 0)
        return found


def test_both_come_back_from_the_archive_after_the_loss_of_the_machine(
    machines: tuple[Instance, Instance], tmp_path: Path
) -> None:
    first, second = machines
    with first.client() as client:
        accepted = client.create_service("shop", environment=Environment.PROD)
        service = client.wait_ready(accepted.service_id, timeout_seconds=240)
    shop, password = service.service_id, str(accepted.initial_password)
    with connect(service.endpoint.port, password) as connection:
        connection.execute("CREATE TABLE ledger AS SELECT generate_series(1, 100) AS n")
    first.await_archived(shop)
    with first.client() as client:
        begun = client.upgrade_service(shop, NEW)
        with connect(service.endpoint.port, password) as connection:
            connection.execute("INSERT INTO ledger VALUES (101)")  # during the trial, in WAL that was not sent yet
        ended = client.wait_upgraded(shop, begun.upgrade_id, 600)
        assert ended.status is OperationStatus.SUCCEEDED, ended.error
        client.wait_ready(shop, timeout_seconds=120)
    before = str(ended.previous_service_id)
    with connect(service.endpoint.port, password) as connection:
        connection.execute("INSERT INTO ledger VALUES (102)")
    for service_id, name in ((shop, f"{shop}-{NEW}"), (before, shop)):
        first.await_archived(service_id)
        found = first.ask("GET", f"/services/{service_id}/archive")
        assert (found["server_name"], found["problem"]) == (name, None)
    key = tmp_path / "archive.key"
    key.write_text(first.run("archive", "key", "--data", str(first.data)).stdout)
    contents = ("recover", "--data", str(second.data), "--from", first.environment["RAMET_ARCHIVE_URL"], "-o", "json")

    archive, wanted = open_bucket(first.environment["RAMET_ARCHIVE_URL"]), {shop: False, before: True}
    eventually(lambda: {one.id: one.paused for one in entries(archive)} == wanted, "the catalogue", 0.2)
    root = first.root
    first.remove()
    root.mkdir()  # the fixture removes it again

    answer = second.run(*contents, "--all", "--take-over", "--archive-key-file", str(key))
    assert answer.returncode == 0, answer.stderr
    second.environment["RAMET_ARCHIVE_URL"] = first.environment["RAMET_ARCHIVE_URL"]
    second.up()
    with second.client() as client:
        assert rows(client.wait_ready(shop, timeout_seconds=120).endpoint.port, password) == (102, NEW)
        client.start_service(before)
        assert rows(client.wait_ready(before, timeout_seconds=120).endpoint.port, password) == (101, OLD)
    for service_id, name in ((shop, f"{shop}-{NEW}"), (before, shop)):
        second.await_archived(service_id)
        assert second.ask("GET", f"/services/{service_id}/archive")["server_name"] == name
