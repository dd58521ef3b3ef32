"""What a source says of itself is data in the statements that make its copy, which a superuser executes."""

from dataclasses import replace

import psycopg
import pytest

from ramet.backends.interface.sources import Locale, SourceFacts
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sources import target
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import value
from tests.backends.local.hosts import boot, new_server

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
