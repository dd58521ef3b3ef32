"""The settings by which a replica follows its primary, as a pure function."""

import shlex

from psycopg.conninfo import make_conninfo

from ramet.backends.interface.values import Primary
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql.connections import PLATFORM_ROLE


def following(primary: Primary, paths: ServicePaths) -> dict[str, str]:
    """Return what makes the server at `paths` follow `primary`, whose directories lie beside its own.

    A query may hold replay up for five minutes before it is cancelled; it never holds the primary's clean-up back.
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
