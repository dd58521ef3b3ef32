"""Servers outside of Ramet, of each version, subscribe to a publication of the tenants' admin."""

import tempfile
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.interface.sources import SourceAddress
from ramet.backends.local.sources.relay import PORT, open_relay
from ramet.model.wal_level import WalLevel
from tests.backends.local.forks import make_backend, run
from tests.backends.local.hosts import connect, new_server
from tests.replication.test_real_slots import PASSWORD
from tests.sources import MAJORS, open_source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_TABLE = "CREATE TABLE orders (id int PRIMARY KEY, note text)"
_ROWS = "SELECT id, note FROM orders ORDER BY id"


@pytest.mark.parametrize("outside_major", MAJORS)
@pytest.mark.parametrize("major", MAJORS)
def test_a_server_outside_has_the_rows_of_the_service(major: int, outside_major: int) -> None:
    with make_backend("copy") as backend, open_source(outside_major) as outside, tempfile.TemporaryDirectory() as name:
        server = new_server(backend.instances, PASSWORD, pg_major=major, wal_level=WalLevel.LOGICAL)
        backend.servers.initialize(server)
        run(backend, server)
        backend.servers.secure(server, is_new=True, neutralize=False)
        backend.servers.open(server)
        with connect(server, PASSWORD, sslmode="prefer") as inside:
            inside.execute(_TABLE)
            inside.execute("INSERT INTO orders SELECT n, 'order ' || n FROM generate_series(1, 300) n")
            inside.execute("CREATE PUBLICATION move_out FOR TABLE orders")
        outside.run(_TABLE)
        # The wheel's PostgreSQL has no TLS, so a relay speaks it.
        sslmode = "require" if backend.instances.installations.of(major).has_tls else "disable"
        Path(name).chmod(0o711)
        with open_relay(SourceAddress("localhost", server.port, "tsdb", "tsdbadmin", sslmode), Path(name)):
            (Path(name) / f".s.PGSQL.{PORT}").chmod(0o666)
            conninfo = f"host={name} port={PORT} dbname=tsdb user=tsdbadmin password={PASSWORD.reveal()}"
            outside.run(f"CREATE SUBSCRIPTION move_out CONNECTION '{conninfo}' PUBLICATION move_out")
            with connect(server, PASSWORD, sslmode="prefer") as inside, outside.connect() as session:
                inside.execute("UPDATE orders SET note = 'changed' WHERE id % 3 = 0")
                inside.execute("DELETE FROM orders WHERE id % 7 = 0")
                expected = inside.execute(_ROWS).fetchall()
                eventually(lambda: session.execute(_ROWS).fetchall() == expected, "the rows", 0.1)
            # The workers that copied the tables drop their slots a little later.
            eventually(lambda: len(backend.replication.slots(server).slots) == 1, "one slot", 0.1)
            (slot,) = backend.replication.slots(server).slots
            assert (slot.name, slot.active) == ("move_out", True)
            outside.run("DROP SUBSCRIPTION move_out")
        assert backend.replication.slots(server).slots == []
