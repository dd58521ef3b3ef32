"""The configuration as a pure function, held by golden files; RAMET_UPDATE_GOLDEN=1 rewrites them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ramet.backends.interface.values import Primary, Server
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.access import is_open, pg_hba_conf, pg_ident_conf
from ramet.backends.local.server.configuration import (
    Features,
    Phase,
    closing,
    postgresql_conf,
)
from ramet.model.environment import Environment
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from tests.backends.kubernetes.servers import UPSTREAM

GOLDEN = Path(__file__).parent / "golden"
PATHS = ServicePaths(Path("/pool/services/abcdefghij"), Path("/run/ramet/01234567/abcdefghij"))
SHARED = Server(
    service_id="abcdefghij",
    service_type=ServiceType.POSTGRES,
    environment=Environment.DEV,
    size=Size(),
    host="localhost",
    port=5433,
    pg_major=15,
    verifier=Secret("not in any file"),
)
LARGE = replace(SHARED, environment=Environment.PROD, size=Size(8000, 32), host="db.example.com", pg_major=18)
REPLICA = replace(SHARED, size=Size(500, 2), primary=Primary("parent1234", 5432))
TLS = Features(has_tls=True, preload=("pg_stat_statements",))
MUST_NOT_BE_LESS_ON_A_REPLICA = (
    "max_connections",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
)
CASES = {
    "shared-15-closed.conf": postgresql_conf(SHARED, PATHS, TLS, Phase.CLOSED),
    "shared-18-open.conf": postgresql_conf(replace(SHARED, pg_major=18), PATHS, TLS, Phase.OPEN),
    "large-18-open.conf": postgresql_conf(LARGE, PATHS, replace(TLS, wal_compression="lz4"), Phase.OPEN),
    "medium-17-without-tls.conf": postgresql_conf(
        replace(LARGE, size=Size(2000, 8), pg_major=17), PATHS, Features(has_tls=False, copy_on_write=False), Phase.OPEN
    ),
    "replica-15-open.conf": postgresql_conf(REPLICA, PATHS, TLS, Phase.OPEN),
    "closed.hba": pg_hba_conf(TLS, Phase.CLOSED),
    "open.hba": pg_hba_conf(TLS, Phase.OPEN),
    "open-without-tls.hba": pg_hba_conf(Features(has_tls=False), Phase.OPEN),
    "standby-open.hba": pg_hba_conf(replace(TLS, superusers=("postgres", "admin")), Phase.OPEN),
    "root.ident": pg_ident_conf(("root", "ramet")),
}


@pytest.mark.parametrize("name", CASES)
def test_the_configuration_is_as_it_was_reviewed(name: str) -> None:
    golden = GOLDEN / name
    if os.environ.get("RAMET_UPDATE_GOLDEN"):
        golden.write_text(CASES[name])
    assert CASES[name] == golden.read_text()


def test_nothing_secret_is_in_the_configuration() -> None:
    assert not any(SHARED.verifier.reveal() in text for text in CASES.values())


def test_whether_a_server_is_open_does_not_go_by_the_name_of_a_superuser() -> None:
    names = ["ramet", *(f"x\r{rule}\ry" for rule in CASES["open.hba"].splitlines())]
    closed, opened = (pg_hba_conf(replace(TLS, superusers=names), phase) for phase in (Phase.CLOSED, Phase.OPEN))
    assert (is_open(closed), is_open(opened)) == (False, True)


def test_where_a_superuser_cannot_be_named_an_open_server_admits_nobody_by_password() -> None:
    hba = pg_hba_conf(replace(TLS, superusers=("ramet", "a\nb")), Phase.OPEN)
    assert is_open(hba)
    assert "scram-sha-256" not in hba


@pytest.mark.parametrize(("environment", "megabytes"), [(Environment.DEV, 256), (Environment.PROD, 8192)])
def test_forks_for_development_do_not_take_the_memory_of_production(environment: Environment, megabytes: int) -> None:
    conf = postgresql_conf(replace(LARGE, environment=environment), PATHS, TLS, Phase.OPEN)
    assert f"shared_buffers = '{megabytes}MB'" in conf


def test_what_was_prepared_at_any_size_fits_every_other() -> None:
    sizes = (Size(), Size(500, 2), Size(32000, 128))
    confs = [postgresql_conf(replace(SHARED, size=size), PATHS, TLS, Phase.OPEN) for size in sizes]
    assert all("max_prepared_transactions = '100'" in conf for conf in confs)


def test_what_was_prepared_in_a_source_fits_a_service_that_follows_it_no_more() -> None:
    features = replace(TLS, at_least={"max_prepared_transactions": 500})
    for server in (SHARED, REPLICA):
        conf = settings_of(postgresql_conf(server, PATHS, features, Phase.OPEN))
        assert conf["max_prepared_transactions"] == "500"


def test_many_chunks_can_be_locked_where_there_are_any() -> None:
    chunks = replace(SHARED, service_type=ServiceType.TIMESERIESDB)
    conf = postgresql_conf(chunks, PATHS, Features(has_tls=True, preload=("timescaledb",)), Phase.OPEN)
    assert settings_of(conf)["max_locks_per_transaction"] == "128"


@pytest.mark.parametrize(
    ("databases", "jobs", "workers"), [(0, 32, 43), (4, 32, 43), (16, 32, 43), (17, 48, 59), (900, 80, 91)]
)
def test_workers_of_timescaledb_and_databases_count(databases: int, jobs: int, workers: int) -> None:
    features = Features(has_tls=True, preload=("timescaledb",), databases=databases)
    conf = settings_of(postgresql_conf(SHARED, PATHS, features, Phase.OPEN))
    assert conf["timescaledb.max_background_workers"] == str(jobs)
    assert conf["max_worker_processes"] == str(workers)
    replica = settings_of(postgresql_conf(REPLICA, PATHS, replace(features, databases=1), Phase.OPEN))
    assert int(replica["max_worker_processes"]) >= workers


@pytest.mark.parametrize("features", [TLS, replace(TLS, has_tls=False)])
def test_an_open_servers_configuration_is_closed_without_its_size(features: Features) -> None:
    opened, closed = (postgresql_conf(SHARED, PATHS, features, phase) for phase in (Phase.OPEN, Phase.CLOSED))
    assert closing(opened) == closing(closed) == closed != opened


def test_odd_paths_and_names_are_quoted() -> None:
    paths = ServicePaths(Path("/po'ol\\x/services/abcdefghij"), PATHS.sockets)
    assert "'/po''ol\\\\x/services/abcdefghij/archive'" in postgresql_conf(SHARED, paths, TLS, Phase.OPEN)
    assert pg_ident_conf(('a"b',)).startswith('platform "a""b" ramet\n')


def test_a_replica_accepts_what_its_primary_may_have_at_any_size() -> None:
    replica = settings_of(postgresql_conf(REPLICA, PATHS, TLS, Phase.OPEN))
    for size in (Size(), Size(500, 2), Size(32000, 128), Size(256000, 1024)):
        primary = settings_of(postgresql_conf(replace(LARGE, size=size), PATHS, TLS, Phase.OPEN))
        for name in MUST_NOT_BE_LESS_ON_A_REPLICA:
            assert int(replica[name]) >= int(primary[name])


def settings_of(conf: str) -> dict[str, str]:
    pairs = (line.split(" = ", 1) for line in conf.splitlines() if " = " in line)
    return {name: value.strip("'") for name, value in pairs}


@pytest.mark.parametrize(("major", "name"), [(17, "max_replication_slots"), (18, "max_active_replication_origins")])
def test_only_what_has_or_may_get_many_replication_origins_allows_more_of_them(major: int, name: str) -> None:
    server = replace(SHARED, pg_major=major)
    few, many = (settings_of(postgresql_conf(server, PATHS, replace(TLS, origins=n), Phase.OPEN)) for n in (4, 5))
    standby = settings_of(postgresql_conf(replace(server, upstream=UPSTREAM), PATHS, TLS, Phase.OPEN))
    assert [conf.get(name, "10") for conf in (few, many, standby)] == ["10", "100", "100"]
