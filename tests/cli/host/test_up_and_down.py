"""`ramet up` and `ramet down` as processes, with real servers behind them."""

import re
import socket
import stat
from collections.abc import Iterator

import psycopg
import pytest
from msgspec.structs import replace

from harness.halves import apart
from harness.instance import Instance, open_instance
from harness.waiting import eventually
from ramet.cli.connection import connection_string
from ramet.cli.user_files.credentials import read_credentials, write_credentials
from ramet.model.status import Status


@pytest.fixture
def host() -> Iterator[Instance]:
    with open_instance() as made:
        yield made


def _select_one(uri: str) -> None:
    with psycopg.connect(uri, connect_timeout=60) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.slow
def test_databases_keep_running_after_up_and_stop_with_down(host: Instance) -> None:
    host.up()
    with host.client() as ramet:
        created = ramet.create_service("shop")
        ramet.wait_ready(created.service_id, 180)
    uri = connection_string(created.endpoint, str(created.initial_password))
    _select_one(uri)
    assert host.terminate() == 0
    _select_one(uri)

    host.up()
    with host.client() as ramet:
        eventually(lambda: [service.status for service in ramet.list_services()] == ["READY"])
        refused = host.run("up", "--data", str(host.data), "--port", "0")
        assert refused.returncode == 3
        assert host.process is not None
        assert f"pid {host.process.pid}" in refused.stderr

    assert host.down() == 0
    with pytest.raises(psycopg.OperationalError, match="Connection refused"):
        _select_one(uri)

    host.up()
    with host.client() as ramet:
        eventually(lambda: ramet.get_service(created.service_id).status == Status.READY)
        _select_one(uri)
        assert host.run("service", "delete", "shop", "--yes").returncode == 0
    # A warning may come from a busy host, for example that a server is not ready yet.
    assert not re.findall("level=(?!info|warning)", host.log), host.log


@pytest.mark.slow
def test_the_halves_apart_do_what_both_do_together(host: Instance) -> None:
    host.up()
    with apart(host), host.client() as ramet:
        created = ramet.create_service("shop")
        ramet.wait_ready(created.service_id, 180)
        _select_one(connection_string(created.endpoint, str(created.initial_password)))
    assert host.run("service", "delete", "shop", "--yes").returncode == 0
    assert not re.findall("level=(?!info|warning)", host.log), host.log


@pytest.mark.slow
def test_http_endpoints_and_poolers_work_over_ipv6(host: Instance) -> None:
    host.up("--host", "::1", "--endpoint-host", "::1")
    with host.client() as ramet:
        assert ramet.base_url.startswith("http://[::1]:")
        created = ramet.create_service("shop")
        ramet.wait_ready(created.service_id, 180)
        assert created.endpoint.host == "::1"
        _select_one(connection_string(created.endpoint, str(created.initial_password)))
        listed = host.run("service", "list")
        assert (listed.returncode, "shop" in listed.stdout) == (0, True), listed.stderr
        assert "http://[::1]:" in host.log
        assert "without TLS" not in host.log
        assert host.run("service", "pooler", "enable", "shop").returncode == 0
        pooler = ramet.get_service(created.service_id).connection_pooler
        assert pooler is not None
        _select_one(connection_string(pooler.endpoint, str(created.initial_password)))
        assert host.run("service", "delete", "shop", "--yes").returncode == 0


@pytest.mark.slow
def test_only_the_user_can_read_what_up_writes_and_clients_verify_its_tls(host: Instance) -> None:
    host.environment["RAMET_TLS_CERT"] = "auto"
    host.up()
    with host.client() as ramet:
        given = read_credentials(host.root / "credentials.json")
        assert given is not None
        assert given.base_url == ramet.base_url
        assert given.base_url.startswith("https://127.0.0.1:")
        assert given.ca == ramet.get_certificate_authority().certificate == host.run("ca").stdout
        assert host.run("service", "list").returncode == 0
        assert host.run("ca", "--data", str(host.data)).stdout == given.ca
        write_credentials(host.root / "stranger.json", replace(given, ca=""))
        stranger = host.run("service", "list", "--credentials-file", str(host.root / "stranger.json"))
        assert (stranger.returncode, "'ramet ca'" in stranger.stderr) == (1, True), stranger.stderr
        assert read_credentials(host.root / "config" / "ramet" / "credentials.json") == given
        for path in (host.root / "credentials.json", host.root / "config" / "ramet" / "credentials.json"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        readable = [path for path in host.data.iterdir() if path.is_file() and path.stat().st_mode & 0o077]
        assert readable == []
        assert not any(given.secret_key.encode() in content for content in host.store_files().values())
        assert given.secret_key not in host.log


def test_a_taken_port_is_named(host: Instance) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        refused = host.run("up", "--data", str(host.data), "--port", str(port), "--storage-driver", "copy")
    assert refused.returncode == 1
    assert str(port) in refused.stderr
