"""What the configuration files of servers depend on besides the service: the installation."""

from dataclasses import replace
from pathlib import Path

import pytest

from ramet.backends.local.host.paths import layout_of
from ramet.backends.local.host.system_user import server_account
from ramet.backends.local.process import postgres
from ramet.backends.local.server import config_files
from ramet.backends.local.server.config_files import ConfigFiles
from ramet.backends.local.sql import connections
from ramet.errors import Failed
from ramet.model.service_type import ServiceType
from ramet.model.upstream import MOST_ORIGINS
from tests.backends.local import hosts
from tests.servers import installations


def test_the_library_of_timescaledb_is_never_left_out(tmp_path: Path) -> None:
    files = ConfigFiles(layout_of(tmp_path, tmp_path), server_account(), installations())
    without = replace(installations().default, lib=tmp_path)
    assert files.preload_of(ServiceType.TIMESERIESDB, without) == ("timescaledb",)
    assert files.preload_of(ServiceType.VECTOR, without) == files.preload_of(ServiceType.POSTGRES, without) == ()
    (tmp_path / "pg_stat_statements.so").touch()
    assert files.preload_of(ServiceType.TIMESERIESDB, without) == ("timescaledb", "pg_stat_statements")
    assert files.preload_of(ServiceType.POSTGRES, without) == ("pg_stat_statements",)


def test_a_server_that_needs_timescaledb_does_not_start_without_it() -> None:
    if installations().default.has_library("timescaledb"):
        pytest.skip("TimescaleDB is installed")
    with hosts.make_servers() as instances:
        server = hosts.new_server(instances, service_type=ServiceType.TIMESERIESDB)
        with pytest.raises(Failed) as failed:
            hosts.boot(instances, server)
        assert 'could not access file "timescaledb"' in failed.value.details


def test_the_replication_origins_of_a_server_are_counted_by_its_file() -> None:
    with hosts.make_servers() as instances:
        server = hosts.new_server(instances)
        hosts.boot(instances, server)
        paths = instances.paths(server.service_id)
        counts = [config_files._count_origins(paths)]
        with connections.connect(paths) as connection:
            connection.execute("SELECT pg_replication_origin_create('o' || n) FROM generate_series(1, 5) n")
            connection.execute("SELECT pg_replication_origin_advance('o' || n, '0/1') FROM generate_series(1, 5) n")
            connection.execute("CHECKPOINT")
        counts.append(config_files._count_origins(paths))
        instances.restart(server)
    assert counts == [0, 5]


@pytest.mark.parametrize("is_low", [False, True])
def test_a_server_that_crashes_has_the_limit_of_origins_that_its_wal_needs(is_low: bool) -> None:
    """Its file may have fewer than there were after that, and an earlier release may have lowered the limit."""
    with hosts.make_servers() as instances:
        server = hosts.new_server(instances)
        hosts.boot(instances, server)
        paths = instances.paths(server.service_id)
        with connections.connect(paths) as connection:
            connection.execute("SELECT pg_replication_origin_create('o' || n) FROM generate_series(1, 11) n")
            connection.execute("SELECT pg_replication_origin_advance('o' || n, '0/1') FROM generate_series(1, 5) n")
        instances.restart(server)  # it allows many from now on
        with connections.connect(paths) as connection:
            connection.execute("SELECT pg_replication_origin_drop('o' || n) FROM generate_series(1, 5) n")
            connection.execute("SELECT pg_replication_origin_create('o' || n) FROM generate_series(1, 5) n")
            connection.execute("CHECKPOINT")
            connection.execute("SELECT pg_replication_origin_advance('o' || n, '0/1') FROM generate_series(1, 11) n")
            connection.execute("CREATE TABLE public.flushed ()")
        assert config_files._count_origins(paths) == 0
        postgres.kill(paths, 30)
        if is_low:
            paths.config_file.write_text(paths.config_file.read_text().replace(f"'{MOST_ORIGINS}'", "'10'"))
            with pytest.raises(Failed, match="could not find free replication state"):
                hosts.restart(instances, server)
        hosts.restart(instances, server)
        counts = []
        for _ in range(2):
            with connections.connect(paths) as connection:
                counts += connection.execute("SELECT count(*) FROM pg_replication_origin_status").fetchall()
            instances.restart(server)
    assert counts == [(11,), (11,)]


@pytest.mark.parametrize("keeps_out", [False, True])
def test_rules_are_never_written_without_the_maps_that_they_name(keeps_out: bool) -> None:
    """A server that an earlier release has opened had other maps, and one was missing."""
    with hosts.make_servers() as instances:
        server = hosts.new_server(instances)
        hosts.boot(instances, server)
        instances.open(server)
        paths = instances.paths(server.service_id)
        paths.ident_file.write_text('platform "root" ramet\n')
        if keeps_out:
            with connections.connect(paths) as connection:
                assert instances.config.keep_out(server, ("x",), connection)
        else:
            instances.close(server)
        assert [line.split()[0] for line in paths.ident_file.read_text().splitlines()].count(
            "streaming"
        ) == 1 + keeps_out
