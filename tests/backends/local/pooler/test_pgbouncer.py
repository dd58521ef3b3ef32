"""The configuration of a PgBouncer: what depends on its version, and on the servers behind it."""

from dataclasses import replace
from pathlib import Path

import pytest

from ramet.backends.local.pooler.pgbouncer import Pooling, Program, advice_for_clients, pgbouncer_ini

HOME = Path("/var/lib/pooler")
PRIMARY = Pooling("localhost", 6432, (Path("/run/one"),), 5432, 100, None, None)
REPLICA = replace(PRIMARY, reads_only=True)


def setting(name: str, pooling: Pooling, version: tuple[int, int]) -> str | None:
    lines = pgbouncer_ini(pooling, Program(Path("/usr/sbin/pgbouncer"), version), HOME).splitlines()
    found = [line.partition(" = ")[2] for line in lines if line.startswith(f"{name} = ")]
    return found[0] if found else None


@pytest.mark.parametrize("version", [(1, 17), (1, 20), (1, 24)])
def test_nothing_that_a_client_of_a_service_asks_for_is_ignored(version: tuple[int, int]) -> None:
    assert setting("ignore_startup_parameters", PRIMARY, version) == "extra_float_digits"


@pytest.mark.parametrize(
    ("version", "ignored"),
    [
        ((1, 18), "extra_float_digits,options"),
        ((1, 20), "extra_float_digits,tsdb_admin.read_only_connection,default_transaction_read_only"),
    ],
)
def test_replicas_are_read_only_without_a_setting(version: tuple[int, int], ignored: str) -> None:
    assert setting("ignore_startup_parameters", REPLICA, version) == ignored


def test_prepared_statements_are_kept_where_pgbouncer_can() -> None:
    assert setting("max_prepared_statements", PRIMARY, (1, 20)) is None
    assert setting("max_prepared_statements", PRIMARY, (1, 21)) == "200"
    assert "prepare_threshold=None" in advice_for_clients(Program(Path("/usr/sbin/pgbouncer"), (1, 20)))
    assert advice_for_clients(Program(Path("/usr/sbin/pgbouncer"), (1, 21))) == ""


def test_auth_user_is_set_for_client_databases_only() -> None:
    text = pgbouncer_ini(PRIMARY, Program(Path("/usr/sbin/pgbouncer"), (1, 18)), HOME)
    assert setting("auth_user", PRIMARY, (1, 18)) is None
    assert text.count("auth_user=pg_ramet_pooler") == 2
