"""A fork of a real standby is upgraded, as a refusal of the standby itself advises."""

import pytest

from harness.instance import connect
from ramet.client import ApiError, Client, ForkStrategy
from ramet.model.passwords import Secret
from ramet.model.status import OperationStatus
from tests.followers.conftest import PASSWORD, url_of
from tests.sources import MAJORS, Source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("source", [min(MAJORS)], indirect=True)
def test_a_fork_of_a_standby_is_upgraded(client: Client, source: Source) -> None:
    accepted = client.follow_database("shop", url_of(source), Secret(PASSWORD))
    client.wait_ready(accepted.service_id, timeout_seconds=300)
    with pytest.raises(ApiError) as refused:
        client.upgrade_service(accepted.service_id, max(MAJORS), trial=True)
    assert (refused.value.code, "Fork the service" in refused.value.details) == ("FOLLOWS_SOURCE", True)
    fork = client.fork_service(accepted.service_id, ForkStrategy.NOW, name="newer")
    client.wait_ready(fork.service_id, timeout_seconds=300)
    begun = client.upgrade_service(fork.service_id, max(MAJORS))
    found = client.wait_upgraded(fork.service_id, begun.upgrade_id, 500)
    assert found.status is OperationStatus.SUCCEEDED, found.error
    client.wait_ready(fork.service_id, timeout_seconds=120)
    with connect(fork.endpoint.port, str(fork.initial_password)) as connection:
        assert connection.execute("SELECT count(*), max(n) FROM ledger").fetchone() == (100, 100)
        assert connection.execute("SHOW server_version_num").fetchall()[0][0].startswith(str(max(MAJORS)))
    for one in (fork.service_id, str(found.previous_service_id), accepted.service_id):
        client.delete_service(one)
