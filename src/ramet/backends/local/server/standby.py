"""The settings of a replica, and of a standby of a database elsewhere, as pure functions."""

import shlex
from pathlib import Path

from psycopg.conninfo import make_conninfo

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.values import Primary
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.sql.connections import PLATFORM_ROLE
from ramet.model.upstream import Upstream

PASSFILE, ROOT_CERTIFICATE = "passfile", "root.crt"


def following(primary: Primary, paths: ServicePaths) -> dict[str, str]:
    """Return the settings by which the server at `paths` follows `primary`, which is on the same host.

    A query may delay replay for five minutes before it is cancelled; it never delays vacuum on the primary.
    """
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
        "restore_command": _restore_command(paths.root.parent / primary.service_id / "archive"),
        "recovery_target_timeline": "latest",
        "hot_standby_feedback": "off",
        "max_standby_streaming_delay": "5min",
        "max_standby_archive_delay": "5min",
        "wal_retrieve_retry_interval": "1s",
    }


def source_directory(paths: ServicePaths) -> Path:
    """Return where the password of a source is, and its root certificate."""
    return paths.root / "source"


def connection_of(source: Upstream | SourceAddress, directory: Path, service_id: str, dbname: str | None = None) -> str:
    """Return how libpq connects to a source; the password is in a file of `directory`: others may read the text."""
    certificate = None if source.root_certificate is None else str(directory / ROOT_CERTIFICATE)
    return make_conninfo(
        host=source.host,
        port=source.port,
        user=source.user,
        application_name=f"ramet {service_id}",
        passfile=str(directory / PASSFILE),
        sslmode=source.sslmode,
        gssencmode="disable",
        connect_timeout=10,
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=6,
        sslrootcert=certificate,
        dbname=dbname,
    )


def following_source(upstream: Upstream, paths: ServicePaths, archives: Path | None = None) -> dict[str, str]:
    """Return the settings by which the server at `paths` follows a database elsewhere.

    What the source does not have any more comes from its archive, a subdirectory of `archives`. Half of
    wal_receiver_timeout after the last message it asks for one: that tells the source's clock while it is idle.
    """
    archive = archive_of(upstream, archives)
    return {
        "primary_conninfo": connection_of(upstream, source_directory(paths), paths.service_id),
        "primary_slot_name": upstream.slot_of(paths.service_id) or "",
        **({} if archive is None else {"restore_command": _restore_command(archive)}),
        "recovery_target_timeline": "latest",
        "hot_standby_feedback": "off",
        "max_standby_streaming_delay": "5min",
        "max_standby_archive_delay": "5min",
        "wal_receiver_timeout": "20s",
        "wal_receiver_status_interval": "1s",
        "wal_retrieve_retry_interval": "2s",
    }


def archive_of(upstream: Upstream, archives: Path | None) -> Path | None:
    """Return the directory with the archived WAL of a source; None: there is none here."""
    return None if upstream.archive is None or archives is None else archives / upstream.archive


def _restore_command(archive: Path) -> str:
    directory = shlex.quote(str(archive)).replace("%", "%%")
    return f"test -f {directory}/%f && cp {directory}/%f %p"
