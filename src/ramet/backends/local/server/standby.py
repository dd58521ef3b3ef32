"""The settings of a replica, and of a standby of a database elsewhere, as pure functions."""

import shlex
from pathlib import Path

from psycopg.conninfo import make_conninfo

from ramet.backends.interface.values import Primary
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql.connections import PLATFORM_ROLE
from ramet.model.upstream import Upstream

PASSFILE, ROOT_CERTIFICATE = "passfile", "root.crt"


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


def source_directory(paths: ServicePaths) -> Path:
    """Return where the password of a source is, and its root certificate."""
    return paths.root / "source"


def connection_of(upstream: Upstream, paths: ServicePaths) -> str:
    """Return how libpq connects to a source; the password is in a file."""
    directory = source_directory(paths)
    certificate = None if upstream.root_certificate is None else str(directory / ROOT_CERTIFICATE)
    return make_conninfo(
        host=upstream.host,
        port=upstream.port,
        user=upstream.user,
        application_name=f"ramet {paths.service_id}",
        passfile=str(directory / PASSFILE),
        sslmode=upstream.sslmode,
        gssencmode="disable",
        connect_timeout=10,
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=6,
        sslrootcert=certificate,
    )


def following_source(upstream: Upstream, paths: ServicePaths) -> dict[str, str]:
    """Return the settings by which the server at `paths` follows a database elsewhere.

    Half of wal_receiver_timeout after the last message it asks for one: that tells the source's clock while it is idle.
    """
    return {
        "primary_conninfo": connection_of(upstream, paths),
        "primary_slot_name": upstream.slot or "",
        "recovery_target_timeline": "latest",
        "hot_standby": "on",
        "hot_standby_feedback": "off",
        "max_standby_streaming_delay": "5min",
        "max_standby_archive_delay": "5min",
        "wal_receiver_timeout": "20s",
        "wal_receiver_status_interval": "1s",
        "wal_retrieve_retry_interval": "2s",
    }
