"""One server from its files to its endpoint."""

from pathlib import Path

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.interface.values import Server
from ramet.backends.local.process import log_files
from ramet.backends.local.server import probe, read_only_storage
from ramet.backends.local.server.configuration import Phase
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.machine.tls import refuses_tls
from ramet.model.passwords import Secret, new_password
from tests.backends.local.hosts import boot, connect, new_server, restart


def test_a_server_accepts_clients_only_after_it_is_opened(instances: Instances) -> None:
    server = new_server(instances)
    boot(instances, server)
    assert (_answer(server.port), instances.is_open(server)) == (probe.Answer.REFUSES, False)
    instances.open(server)
    assert (_answer(server.port), instances.is_open(server)) == (probe.Answer.ASKS_PASSWORD, True)
    instances.close(server)
    assert (_answer(server.port), instances.is_open(server)) == (probe.Answer.REFUSES, False)


def test_clients_of_a_closed_server_see_no_authentication_failure(instances: Instances) -> None:
    server = new_server(instances)
    boot(instances, server)
    with pytest.raises(psycopg.OperationalError, match="does not support SSL"):
        connect(server, "any")
    with pytest.raises(psycopg.OperationalError, match=r"pg_hba\.conf rejects"):
        connect(server, "any", sslmode="disable")


def test_a_server_that_is_resumed_rejects_no_client(instances: Instances) -> None:
    password = new_password()
    server = new_server(instances, password)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    assert instances.stop(server, 20)
    errors: list[str] = []

    def is_in() -> bool:
        try:
            connect(server, password).close()
        except psycopg.OperationalError as error:
            errors.append(str(error))
            return False
        return True

    instances.start(server, Phase.OPEN)
    eventually(is_in)
    assert all("refused" in text or "starting up" in text or "not yet accepting" in text for text in errors), errors


def test_a_stopped_server_starts_again_with_its_data(instances: Instances) -> None:
    server = new_server(instances)
    boot(instances, server)
    paths = instances.paths(server.service_id)
    with connections.connect(paths) as connection:
        connection.execute("CREATE TABLE public.kept AS SELECT 7 AS n")
    assert instances.stop(server, 20)
    assert instances.stop(server, 20)
    restart(instances, server)
    with connections.connect(paths) as connection:
        assert connection.execute("SELECT n FROM public.kept").fetchone() == (7,)


def test_what_the_platform_looks_at_and_switches_leaves_no_complaint_in_the_log(instances: Instances) -> None:
    password = new_password()
    server = new_server(instances, password)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    instances.open(server)
    paths = instances.paths(server.service_id)
    assert not refuses_tls("localhost", server.port)
    read_only_storage.set_read_only(paths)
    eventually(lambda: _reads_only(server, password))
    read_only_storage.set_writable(paths)
    eventually(lambda: not _reads_only(server, password))
    messages = [entry["message"] for entry in log_files.entries(paths)]
    assert any("ready to accept connections" in message for message in messages)
    assert not [
        m for m in messages if "skipping" in m or "could not" in m or ("configuration file" in m and "error" in m)
    ]


def _reads_only(server: Server, password: Secret) -> bool:
    with connect(server, password) as client:
        return client.execute("SHOW default_transaction_read_only").fetchone() == ("on",)


def _answer(port: int) -> probe.Answer:
    return probe.ask("localhost", port, "tsdbadmin", "tsdb", tls=True)


def test_closing_a_server_copies_nothing_to_which_a_link_in_place_of_its_configuration_leads(
    instances: Instances, tmp_path: Path
) -> None:
    server = new_server(instances)
    boot(instances, server)
    config, secret = instances.paths(server.service_id).config_file, tmp_path / "secret"
    secret.write_text("a secret")
    config.unlink()
    config.symlink_to(secret)
    with pytest.raises(FileNotFoundError, match="Not a file"):
        instances.close(server)
    assert config.is_symlink()
