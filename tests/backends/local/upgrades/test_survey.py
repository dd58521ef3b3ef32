"""What is compared before and after an upgrade is read whatever tenants have, or have set for the admin."""

import pytest

from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sources import target
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import DATABASE
from ramet.backends.local.upgrades import survey
from ramet.errors import Unavailable
from ramet.model.upgrade import Statement, StatementPlan
from tests.backends.local.hosts import boot, new_server
from tests.backends.local.many_tables import FEW_LOCKS, make_tables

STATEMENTS = [Statement("SELECT 1", 1)]


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


def test_a_survey_of_a_database_that_admits_nobody_says_that_in_place_of_plans(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "_LOGIN_SECONDS", 0.5)
    server = new_server(instances)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    paths = instances.paths(server.service_id)

    def planned() -> StatementPlan:
        survey.make(instances, server, STATEMENTS)
        made = survey.made(paths, server.pg_major)
        assert made is not None
        (plan,) = made.plans
        return plan

    with connections.connect(paths) as connection:
        connection.execute("ALTER DATABASE tsdb CONNECTION LIMIT 0")
        assert "tsdbadmin cannot log in" in str(planned().problem)
        assert "too many connections" in str(planned().problem)
        connection.execute("ALTER DATABASE tsdb CONNECTION LIMIT -1")
    monkeypatch.undo()
    assert planned().problem is None
    instances.stop(server, 30)
    with pytest.raises(Unavailable):
        planned()
    instances.remove(server.service_id, 10)
