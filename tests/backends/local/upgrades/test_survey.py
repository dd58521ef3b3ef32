"""What is compared before and after an upgrade is read also where there is much of it."""

import pytest

from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import DATABASE
from ramet.backends.local.upgrades import survey
from tests.backends.local.hosts import boot, new_server
from tests.backends.local.many_tables import FEW_LOCKS, make_tables


@pytest.mark.slow
def test_the_rows_of_more_tables_are_counted_than_the_lock_table_holds(instances: Instances) -> None:
    server = new_server(instances, parameters=FEW_LOCKS)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    paths = instances.paths(server.service_id)
    with connections.connect(paths, DATABASE) as connection:
        connection.execute("CREATE SCHEMA app")
        make_tables(connection, "app", 1500, owner="tsdbadmin")
    survey.make(instances, server, ())
    made = survey.made(paths, server.pg_major)
    assert made is not None
    assert sum(made.rows[name] for name in made.rows if "app.many_" in name) == 1500
    instances.remove(server.service_id, 10)
