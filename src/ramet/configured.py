"""The store, the backend, the keys and the certificates that the settings name.

Each function imports what it opens: a command that prints a key does not load a database library, an HTTP server and
two backends, which takes a second.
"""

import hashlib
import resource
import secrets
import socket
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ramet.errors import Invalid, WrongState
from ramet.machine.secret_files import kept_secret
from ramet.settings import Settings

if TYPE_CHECKING:
    from ramet.audit.anchor import Anchors
    from ramet.backends.interface.backend import Backend
    from ramet.backends.interface.inventory import Inventory
    from ramet.backends.kubernetes.backend import KubernetesBackend
    from ramet.backends.local.backend import LocalBackend
    from ramet.backends.local.host.certificates import Authority
    from ramet.recovery.sealed import RecoveryKey
    from ramet.store.database import Store

_GIB = 1024**3
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - a wildcard is no name
_ON_POSTGRESQL = "store-on-postgresql"


def open_store(settings: Settings, *, migrates: bool = True) -> "Store":
    """Open the store that the settings name. Only a process that serves it `migrates` it.

    Raises WrongState for a store on PostgreSQL that another data directory uses, for a store that is lost, and as
    `has_store` does.
    """
    from ramet.audit.recorder import AuditRecorder
    from ramet.model.audit import chain_key
    from ramet.store.database import Store
    from ramet.store.installation import check_database, claim

    _demand_same_kind(settings)
    demand_not_lost(settings)
    if _is_postgresql(settings):
        check_database(settings.store_url(), _digest_of(root_key(settings)))
    store = Store.open(settings.store_url(), migrates=migrates)
    if store.is_postgresql and migrates:
        try:
            claim(store, _digest_of(root_key(settings)))
            kept_secret(settings.data_dir / _ON_POSTGRESQL, lambda: b"RAMET_DATABASE_URL names the store.\n")
        except BaseException:
            store.close()
            raise
    store.recorders.append(AuditRecorder(chain_key(root_key(settings))).record)
    return store


def _demand_same_kind(settings: Settings) -> None:
    """Raise WrongState for a SQLite file where the store is on PostgreSQL.

    A shell lacks the variables that a service of systemd has: an earlier file would be taken for the store, and every
    service for one that nothing knows.
    """
    mark = settings.data_dir / _ON_POSTGRESQL
    if mark.exists() and not _is_postgresql(settings):
        raise WrongState(
            "STORE_ON_POSTGRESQL",
            f"The store of {settings.data_dir} is on PostgreSQL, and the settings name {settings.store_url()}",
            "Set RAMET_DATABASE_URL as it is for the running Ramet, for example with 'set -a; . /etc/ramet/ramet.env'."
            f" To change to SQLite, stop Ramet and remove {mark}.",
        )


def demand_not_lost(settings: Settings) -> None:
    """Raise WrongState where a store is missing that was there: it is made before the storage of services is.

    A new one would know none of them, replace credentials, and write a catalogue without them to the archive.
    """
    from ramet.backends.local import doctor
    from ramet.store.database import is_empty

    mark, earlier = settings.data_dir / _ON_POSTGRESQL, settings.data_dir / "ramet.db"
    if not (doctor.has_storage(settings.data_dir) or mark.exists()):
        return
    path, is_postgresql = _sqlite_file(settings), _is_postgresql(settings)
    if not (is_empty(settings.store_url()) if is_postgresql else _is_without_content(path)):
        return
    place = "the database in RAMET_DATABASE_URL is empty" if is_postgresql else f"its store {path} is missing"
    what = f"The data directory {settings.data_dir} is in use, and {place}"
    if is_postgresql and not mark.exists() and not _is_without_content(earlier):
        remedy = f"Its store is {earlier}: leave RAMET_DATABASE_URL out. A store cannot be moved to PostgreSQL."
        raise WrongState("STORE_MISSING", what, remedy)
    raise WrongState(
        "STORE_MISSING",
        what,
        "Set RAMET_DATABASE_URL as it is for the running Ramet if that has one, for example with"
        " 'set -a; . /etc/ramet/ramet.env'. If the store is lost, restore it from a backup: see docs/backup.md. Without"
        " one, 'ramet recover' brings services back from an off-host archive into a new directory. To begin without"
        " these services, name a new directory with --data.",
    )


def _is_without_content(path: Path) -> bool:
    return not path.exists() or path.stat().st_size == 0


def _sqlite_file(settings: Settings) -> Path:
    """Return the file of a store on SQLite: a URL that was set may have escapes and a query."""
    if not settings.database_url:
        return settings.data_dir / "ramet.db"
    import sqlalchemy as sa

    return Path(sa.make_url(settings.store_url()).database or "")


def _is_postgresql(settings: Settings) -> bool:
    return settings.store_url().startswith("postgresql")


def has_store(settings: Settings) -> bool:
    """Tell whether there is a store to open; opening it would make a new file otherwise.

    Raises WrongState where the settings name a SQLite file, and the store is on PostgreSQL.
    """
    _demand_same_kind(settings)
    return _is_postgresql(settings) or not _is_without_content(_sqlite_file(settings))


def is_store_used(settings: Settings) -> bool:
    """Tell whether the store that the settings name has been used. Raises Unavailable when it cannot be reached."""
    from ramet.store.database import is_empty

    return not is_empty(settings.store_url()) if _is_postgresql(settings) else has_store(settings)


def back_up_store(settings: Settings, target: Path) -> bool:
    """Copy the store into a new file; False when it is no file of ours, but a database of a PostgreSQL server."""
    from ramet.store.backup import copy_sqlite

    if _is_postgresql(settings):
        return False
    copy_sqlite(_sqlite_file(settings), target)
    return True


def backend_of(settings: Settings) -> "Backend":
    """Open the backend that the settings name."""
    if settings.backend == "kubernetes":
        return kubernetes_backend(settings)
    return local_backend(settings)


def kubernetes_backend(settings: Settings) -> "KubernetesBackend":
    """Open the namespace of Kubernetes that the settings name; no request is made.

    Raises Invalid where DEV forks could not archive their WAL, which would fill their volumes.
    """
    from ramet.backends.kubernetes.backend import open_kubernetes
    from ramet.backends.kubernetes.policies import DENY
    from ramet.backends.kubernetes.site import Exposure, Forks, Site
    from ramet.backends.kubernetes.store_access import store_access

    if settings.archive_url and settings.kubernetes_fork_egress == DENY:
        raise Invalid(
            "INVALID_SETTING",
            "RAMET_KUBERNETES_FORK_EGRESS cannot be deny with RAMET_ARCHIVE_URL: DEV forks could not archive their WAL",
            "Set it to the networks in which the object store is, such as 10.0.0.0/8.",
        )
    site = Site(
        namespace=settings.kubernetes_namespace,
        image=settings.kubernetes_image,
        majors=settings.kubernetes_majors,
        storage_class=settings.kubernetes_storage_class,
        snapshot_class=settings.kubernetes_snapshot_class,
        volume_gbs=settings.kubernetes_volume_gbs,
        exposure=Exposure(settings.kubernetes_endpoints),
        extensions=settings.kubernetes_extensions,
        pooler_image=settings.kubernetes_pooler_image,
        fork_egress=settings.kubernetes_fork_egress,
        archive=store_access(settings.archive_url),
        forks=Forks(settings.kubernetes_forks),
    )
    return open_kubernetes(site, settings.kubeconfig, partial(root_key, settings))


def local_backend(settings: Settings) -> "LocalBackend":
    """Open the backend of this host."""
    from ramet.backends.local.backend import open_backend

    image_bytes = None if settings.image_gbs is None else settings.image_gbs * _GIB
    return open_backend(
        settings.data_dir,
        settings.storage_driver,
        image_size_bytes=image_bytes,
        has_limits=settings.has_limits,
        temp_file_mbs=settings.temp_file_mbs,
        background_jobs=settings.background_jobs,
        archive_url=settings.archive_url,
        service_quota_bytes=None if settings.service_quota_gbs is None else settings.service_quota_gbs * _GIB,
        source_archives=settings.source_archives,
        memory_reserve_percent=settings.memory_reserve_percent,
        memory_commit_percent=settings.memory_commit_percent,
    )


def local_inventory(settings: Settings) -> "Inventory":
    """Open this host for looking at what it holds; its storage is mounted where it is not. Raises Invalid elsewhere."""
    from ramet.backends.local.inventory import LocalInventory

    if settings.backend == "kubernetes":
        raise Invalid(
            "NOT_ON_KUBERNETES",
            "The backend for Kubernetes keeps nothing on this host",
            "List the services' objects with: kubectl get clusters,pvc,volumesnapshots -A -l ramet/service",
        )
    return LocalInventory(local_backend(settings))


def has_storage(settings: Settings) -> bool:
    """Tell whether the data directory holds, or held, services; on Kubernetes only its store tells."""
    from ramet.backends.local import doctor

    return has_store(settings) if settings.backend == "kubernetes" else doctor.has_storage(settings.data_dir)


def describe_host(settings: Settings) -> Sequence[tuple[str, str]]:
    """Return what this host, or the cluster, gives, without changing it, as (title, sentence) rows."""
    from ramet.backends.local import doctor

    if settings.backend == "kubernetes":
        with closing(kubernetes_backend(settings)) as backend:
            return backend.host.describe()
    return doctor.survey(settings.data_dir, settings.memory_reserve_percent)


def root_key(settings: Settings) -> bytes:
    """Return the secret of an installation that others derive from: passwords of repeated requests, and keys."""
    return kept_secret(settings.data_dir / "secrets" / "root.key", lambda: secrets.token_bytes(32))


def _digest_of(key: bytes) -> str:
    """Return what tells the installation with a root key from others, and nothing about the key."""
    return hashlib.sha256(b"ramet installation\0" + key).hexdigest()


def recovery_key(settings: Settings) -> "RecoveryKey":
    """Return the key that encrypts the secrets in the catalogue of the archive; made once unless a file is named."""
    from ramet.recovery.sealed import ensure_key, read_key

    if settings.archive_key_file is not None:
        return read_key(settings.archive_key_file)
    return ensure_key(settings.data_dir / "secrets")


def printed_recovery_key(settings: Settings) -> tuple["RecoveryKey", Path]:
    """Return the key to keep elsewhere, with its file. Raises Invalid for another key than that of the archive."""
    from ramet.recovery.sealed import KEY_FILE, demand_used

    directory = settings.data_dir / "secrets"
    path = settings.archive_key_file or directory / KEY_FILE
    demand_used(directory, path)
    return recovery_key(settings), path


def installation_of(settings: Settings) -> str:
    """Return the identifier of this installation as the writer of an archive; made once."""
    from ramet.backends.local.off_host.archive import installation_id

    return installation_id(settings.data_dir / "secrets")


def anchors_of(settings: Settings) -> "Anchors":
    """Return where the newest entries of the audit are noted outside of the store."""
    from ramet.audit.anchor import Anchors
    from ramet.backends.local.host.files import locked

    return Anchors(settings.data_dir / "audit.anchors", lambda: locked(settings.data_dir / "audit.lock"))


def authority_of(settings: Settings) -> "Authority":
    """Return the authority of the certificates of this host's services; made once. Raises Invalid elsewhere."""
    from ramet.backends.local.host.certificates import open_authority

    if settings.backend == "kubernetes":
        raise Invalid(
            "NOT_ON_KUBERNETES",
            "The backend for Kubernetes has no authority on this host: each cluster of CloudNativePG has its own",
            "Name a certificate and a key with RAMET_TLS_CERT and RAMET_TLS_KEY.",
        )
    return open_authority(settings.data_dir / "secrets")


def replace_expired_authority(settings: Settings) -> None:
    """Replace the authority of this host if it has expired: for the start of a process."""
    from ramet.backends.local.host import certificates

    if settings.backend != "kubernetes":
        certificates.replace_expired_authority(settings.data_dir / "secrets")


def most_connections(settings: Settings) -> int:
    """Return how many connections of HTTP there may be: never more than half of the files that may be open."""
    return min(settings.http_connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def http_certificate(settings: Settings) -> tuple[Path, Path]:
    """Return the files of the certificate of HTTP and of its key; with `auto` they are made where they do not serve.

    Raises Invalid when settings contradict each other.
    """
    from ramet.backends.local.host.certificates import issue_for_http

    if settings.tls_cert == "auto":
        if settings.tls_key is not None:
            raise Invalid("INVALID_SETTING", "RAMET_TLS_KEY cannot be set with RAMET_TLS_CERT=auto", "Leave it out.")
        return issue_for_http(authority_of(settings), settings.data_dir / "secrets", _names_of_http(settings))
    if settings.tls_key is None:
        raise Invalid("INVALID_SETTING", "RAMET_TLS_CERT is set, and RAMET_TLS_KEY is missing", "Set both.")
    return Path(settings.tls_cert), settings.tls_key


def _names_of_http(settings: Settings) -> Sequence[str]:
    """Return the names under which clients may reach HTTP."""
    names = (settings.host, settings.endpoint_host, socket.gethostname())
    return [name for name in dict.fromkeys(names) if name not in _WILDCARDS]
