"""The settings of a replica, as a pure function."""

import shlex

from psycopg.conninfo import make_conninfo

from ramet.backends.interface.values import Primary
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql.connections import PLATFORM_ROLE


def following(primary: Primary, paths: ServicePaths) -> dict[str, str]:
    """Return the settings by which the server at `paths` follows `primary`, which is on the same host.

    A query may delay replay for five minutes before it is cancelled; it never delays vacuum on the primary.
    """
    archive = shlex.quote(str(paths.root.parent / primary.service_id / "archive")).replace("%", "%%")
    return {
        "primary_conninfo": make_conninfo(
            host=str(paths.sockets.parent / primary.service_id),
            port=primary.port,
            user=PLATFORM_ROLE,
            application_name=paths.service_id,
            sslmode="disable",
            gssencmode="disable",
            passfile="/nonexistent",
        ),
        "restore_command": f"test -f {archive}/%f && cp {archive}/%f %p",
        "recovery_target_timeline": "latest",
        "hot_standby": "on",
        "hot_standby_feedback": "off",
        "max_standby_streaming_delay": "5min",
        "max_standby_archive_delay": "5min",
        "wal_retrieve_retry_interval": "1s",
    }
