"""What superusers own becomes the platform's where it is not yet."""

from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.former_superusers import take_objects
from tests.backends.local.hosts import boot, new_server


def test_what_is_the_platforms_already_is_not_locked(instances: Instances) -> None:
    """On Kubernetes the platform is another superuser than the first one, and has the extensions."""
    server = new_server(instances)
    boot(instances, server)
    try:
        with connections.connect(instances.paths(server.service_id)) as platform:
            platform.execute("CREATE ROLE platform SUPERUSER")
            platform.execute("SET SESSION AUTHORIZATION platform")
            platform.execute("CREATE EXTENSION pg_buffercache SCHEMA public")
            with platform.transaction():
                assert take_objects(platform) == []
                assert connections.value(platform, "SELECT pg_current_xact_id_if_assigned()") is None
    finally:
        instances.remove(server.service_id, 10)
