"""What a source says of itself is data in the statements that make its copy, which a superuser executes."""

from dataclasses import replace

import psycopg
import pytest

from ramet.backends.interface.sources import Locale, SourceFacts
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sources import target
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import DATABASE, value
from tests.backends.local.hosts import boot, new_server
from tests.backends.local.many_tables import FEW_LOCKS, make_tables

PLAIN = SourceFacts("15.4", 15, Locale("UTF8", "libc", "C.UTF-8", "C.UTF-8"), 1, 3, 0, "postgres", 1)


def test_a_locale_provider_adds_no_options(instances: Instances) -> None:
    server = new_server(instances)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    evil = replace(PLAIN.locale, provider="libc IS_TEMPLATE true")
    with pytest.raises(psycopg.errors.InvalidObjectDefinition, match="locale provider"):
        target.recreate(instances, server, replace(PLAIN, locale=evil))
    target.recreate(instances, server, PLAIN)
    with connections.connect(instances.paths(server.service_id)) as connection:
        assert value(connection, "SELECT NOT datistemplate FROM pg_database WHERE datname = 'tsdb'")
    instances.remove(server.service_id, 10)


@pytest.mark.slow
def test_what_a_superuser_owned_may_be_more_than_the_lock_table_holds(instances: Instances) -> None:
    server = new_server(instances, parameters=FEW_LOCKS)
    boot(instances, server)
    instances.secure(server, is_new=True, neutralize=False)
    paths, facts = instances.paths(server.service_id), replace(PLAIN, bootstrap_role="boss")
    target.recreate(instances, server, facts)
    with target.admitting_admin(instances, server):
        with target.admin_session(paths, server) as session:
            target.make_roles(session, facts, owners=True)
        with connections.connect(paths, DATABASE) as connection:
            make_tables(connection, "public", 600, owner="boss")
            with pytest.raises(psycopg.errors.OutOfMemory):
                connection.execute("REASSIGN OWNED BY boss TO tsdbadmin")
        assert target.finish(paths, server, facts, owners=True) == []
    with connections.connect(paths, DATABASE) as connection:
        assert value(connection, "SELECT count(*) FROM pg_class WHERE relowner = 'tsdbadmin'::regrole") == 5 * 600
    instances.remove(server.service_id, 10)
