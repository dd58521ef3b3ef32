"""`ramet host set-address`, on the store of a data directory."""

from collections.abc import Iterator

import pytest

from harness.waiting import eventually
from ramet.configured import open_store
from ramet.control.addresses import pending_moves, planned_moves, request_moves
from ramet.control.duties.addresses import move_services
from ramet.model.address import wanted_host_of
from ramet.settings import load_settings, make_data_dir
from ramet.store import services
from ramet.store.database import Store
from tests.cli.terminal import Terminal
from tests.cli.world import World
from tests.store.values import a_project, a_service


@pytest.fixture
def store(stranger: Terminal) -> Iterator[Store]:
    """The store of a data directory with one service, on which no Ramet works."""
    settings = load_settings()
    make_data_dir(settings.data_dir)
    found = open_store(settings)
    with found.write() as tx:
        a_service(tx, a_project(tx), name="shop", pg_major=15)
    yield found
    found.close()


def wishes(store: Store) -> list[str | None]:
    with store.read() as tx:
        return [wanted_host_of(each.settings) for each in services.live_services(tx)]


def test_the_services_that_exist_are_to_get_the_host_when_ramet_runs(stranger: Terminal, store: Store) -> None:
    shown = stranger.made("host", "set-address", "10.1.2.3", "--dry-run")
    assert [(one["name"], one["from"], one["to"], one["restarts"]) for one in shown] == [
        ("shop", "localhost", "10.1.2.3", True)
    ]
    assert wishes(store) == [None]
    said = stranger.ramet("host", "set-address", "10.1.2.3", "--yes")
    assert (said.code, wishes(store)) == (0, ["10.1.2.3"])
    assert "New services get localhost: set RAMET_ENDPOINT_HOST=10.1.2.3" in said.err
    assert "1 services are changed when Ramet runs" in said.err


def test_nothing_is_changed_without_consent_or_need(stranger: Terminal, store: Store) -> None:
    assert stranger.ramet("host", "set-address", "10.1.2.3", typed="n\n").code == 1
    assert stranger.ramet("host", "set-address", "localhost").code == 0
    assert wishes(store) == [None]


@pytest.mark.parametrize("address", ["bad name", "::0", "::", "", "-x.example.com", "db.example.com:5432"])
def test_what_is_no_address_of_this_host_is_refused(stranger: Terminal, store: Store, address: str) -> None:
    said = stranger.ramet("host", "set-address", "--yes", "--", address)
    assert said.code == 3
    assert wishes(store) == [None]


def test_on_kubernetes_the_cluster_decides(stranger: Terminal, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAMET_BACKEND", "kubernetes")
    said = stranger.ramet("host", "set-address", "10.1.2.3")
    assert (said.code, "the cluster decides" in said.err) == (3, True)


def test_a_password_that_was_saved_before_opens_the_service_at_its_new_host(terminal: Terminal, world: World) -> None:
    terminal.made("service", "create", "moves")
    runtime = world.runtime
    request_moves(runtime.store, planned_moves(runtime.store, "127.0.0.1", lambda _major: True))
    move_services(runtime.plane)
    eventually(lambda: pending_moves(runtime.store) == 0)
    said = terminal.ramet("db", "connection-string", "moves", "--with-password")
    assert (said.code, "@127.0.0.1:" in said.out) == (0, True), said.err
    assert terminal.config.joinpath("pgpass").read_text().count("127.0.0.1") == 1
