"""The only place that knows every concrete class: it wires settings, store, backend, operations and HTTP together."""

import secrets
import socket
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from ipaddress import ip_network
from pathlib import Path

import msgspec
from litestar import Litestar

from ramet import __version__
from ramet.api.application import create_app, openapi_json
from ramet.archive.object_store import open_bucket
from ramet.audit.anchor import Anchors
from ramet.audit.recorder import AuditRecorder
from ramet.audit.verbs import remove_old_entries
from ramet.backends.interface.backend import Backend
from ramet.backends.interface.inventory import Inventory
from ramet.backends.kubernetes.backend import KubernetesBackend, open_kubernetes
from ramet.backends.kubernetes.site import Exposure, Forks, Site
from ramet.backends.kubernetes.store_access import store_access
from ramet.backends.local import doctor
from ramet.backends.local.backend import LocalBackend, open_backend
from ramet.backends.local.host.certificates import Authority, issue_for_http, open_authority
from ramet.backends.local.inventory import LocalInventory
from ramet.backends.local.off_host.archive import installation_id
from ramet.client.elsewhere import open_elsewhere
from ramet.console.application import Console, open_console
from ramet.control.duties import drills, retention
from ramet.control.duties.addresses import move_services
from ramet.control.duties.archive import ArchiveChecks, OffHostArchive, discard_old_archives
from ramet.control.duties.clock import TrustedTime
from ramet.control.duties.health import Health
from ramet.control.duties.life_spans import LifeSpans
from ramet.control.duties.logins import EndedLogins
from ramet.control.duties.lost_snapshots import LostSnapshots
from ramet.control.duties.maintenance import maintain_servers
from ramet.control.duties.sampling import Sampling
from ramet.control.duties.sleep import WAKING_SECONDS, FallingAsleep, Waking
from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.control.duties.storage_guard import StorageGuard
from ramet.control.duties.upgrades import Upgrades
from ramet.control.placement import Placement
from ramet.control.plane import Plane, utc_now
from ramet.control.projects import Projects
from ramet.errors import Invalid
from ramet.events.dispatcher import Dispatcher
from ramet.events.recorder import EventRecorder
from ramet.events.sender import Sender
from ramet.events.stream import EventFeed, remove_old_events
from ramet.followers.observation import Observing
from ramet.machine.secret_files import kept_secret
from ramet.model.audit import chain_key
from ramet.model.restore_window import RestoreSettings
from ramet.monitoring.loop_lag import watch_loop
from ramet.monitoring.monitoring import Monitoring, open_monitoring
from ramet.monitoring.scrape import Access, Scrape
from ramet.moves.procedure import Move
from ramet.operations.schedule import Duty, Schedule
from ramet.operations.worker import Worker
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.recovery.publish import PublishCatalogue
from ramet.recovery.sealed import RecoveryKey, ensure_key, read_key
from ramet.settings import Settings, make_data_dir
from ramet.store.backup import copy_sqlite
from ramet.store.database import Store

_GIB = 1024**3
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - a wildcard is no name
_MIB = 1024**2
# How often it is asked how much each server has written: on Kubernetes a program is run in its pod for that.
_LOOK_SECONDS = {"local": 5.0, "kubernetes": 60.0}


@dataclass(frozen=True)
class Runtime:
    """All parts of one process, wired. The worker and the schedule do nothing until `start`."""

    settings: Settings
    store: Store
    backend: Backend
    plane: Plane
    projects: Projects
    console: Console
    worker: Worker
    event_feed: EventFeed
    dispatcher: Dispatcher
    schedule: Schedule
    monitoring: Monitoring

    @classmethod
    def open(cls, settings: Settings) -> "Runtime":
        """Open the store and the backend of a data directory, and wire everything over them."""
        make_data_dir(settings.data_dir)
        return wire(settings, open_store(settings), backend_of(settings))

    def http(self) -> Litestar:
        """Return the HTTP application over the verbs."""
        return create_app(
            self.plane,
            self.projects,
            version=__version__,
            beside=[*self.console.routes(), self.scrape().route()],
            refuse_beside=self.console.refuse,
            observers=self.monitoring.request_observers(),
            lifespan=[watch_loop(self.monitoring.instruments.observe_loop)],
            trusted_proxies=[ip_network(each) for each in self.settings.trusted_proxies],
            event_feed=self.event_feed,
        )

    def scrape(self, *, has_services: bool = True) -> Scrape:
        """Return what answers /metrics. Raises Invalid for a token that is too short."""
        access = Access(self.settings.metrics_token_file, self.settings.metrics_loopback)
        access.token()
        return Scrape(self.plane, self.projects, self.worker, self.monitoring.instruments, access, has_services)

    def start(self, *, alone: bool = False) -> None:
        """Inspect the servers once, so that each status shown is current, then begin to work.

        `alone` says that no other process works on this data directory: operations of a killed one continue at once.
        """
        if alone:
            self.worker.take_over()
        self.schedule.perform_due()
        self.worker.start()
        self.schedule.start()
        self.dispatcher.start()

    def stop(self) -> None:
        """Stop the work; unfinished operations continue at the next start. The servers are not touched."""
        self.dispatcher.stop()
        self.schedule.stop()
        self.worker.stop()

    def end_streams(self) -> None:
        """End what clients listen to, and would never end by itself, so that HTTP can stop."""
        self.console.close()
        self.event_feed.close()

    def close(self) -> None:
        """Close the store, and what this process has opened of a cluster. Servers keep running."""
        if isinstance(self.backend, KubernetesBackend):
            self.backend.close()
        self.monitoring.close()
        self.store.close()


def wire(settings: Settings, store: Store, backend: Backend) -> Runtime:
    """Put a runtime together over an open store and backend."""
    trusted = TrustedTime(settings.data_dir / "clock.json")
    tools = Tools(store, backend, utc_now, timedelta(seconds=settings.fork_rest_seconds), trusted.now)
    window, key = timedelta(days=settings.window_days), root_key(settings)
    move = Move(tools, window, open_elsewhere, _authority(backend), key)
    procedures = [*all_procedures(tools, window), move.procedure()]
    monitoring = open_monitoring(__version__, settings.traces_url)
    worker = Worker(store, procedures, settings.worker_threads, observe=monitoring.observe_step)
    placement = Placement(
        settings.region_code, settings.endpoint_host, settings.port_range, settings.plaintext_endpoints
    )
    plane = Plane(
        store, backend, placement, key, worker.wake, utc_now, _restore_settings(settings), authority=_authority(backend)
    )
    schedule = Schedule(store, _duties(settings, plane, trusted))
    projects = Projects(store)
    console = open_console(plane, projects, key, lambda: msgspec.json.decode(openapi_json(__version__)))
    feed, dispatcher = EventFeed(store), open_dispatcher(settings, plane)
    return Runtime(settings, store, backend, plane, projects, console, worker, feed, dispatcher, schedule, monitoring)


def open_dispatcher(settings: Settings, plane: Plane) -> Dispatcher:
    """Return what delivers events to webhooks, and let the store record events."""
    private = [ip_network(each) for each in settings.webhook_private_targets]
    dispatcher = Dispatcher(plane, Sender(private))
    # Before the audit: whoever takes both of their locks takes them in the same order.
    plane.store.recorders.insert(0, EventRecorder(plane.clock, dispatcher.wake).record)
    return dispatcher


def open_store(settings: Settings, *, migrates: bool = True) -> Store:
    """Open the store that the settings name. Only a process that serves it `migrates` it."""
    store = Store.open(settings.store_url(), migrates=migrates)
    store.recorders.append(AuditRecorder(chain_key(root_key(settings))).record)
    return store


def root_key(settings: Settings) -> bytes:
    """Return the secret of an installation that others derive from: passwords of repeated requests, and keys."""
    return kept_secret(settings.data_dir / "secrets" / "root.key", lambda: secrets.token_bytes(32))


def anchors_of(settings: Settings) -> Anchors:
    """Return where the newest entries of the audit are noted outside of the store."""
    return Anchors(settings.data_dir / "audit.anchors")


def local_inventory(settings: Settings) -> Inventory:
    """Open this host for looking at what it holds; its storage is mounted where it is not. Raises Invalid elsewhere."""
    if settings.backend == "kubernetes":
        raise Invalid(
            "NOT_ON_KUBERNETES",
            "The backend for Kubernetes keeps nothing on this host",
            "List the services' objects with: kubectl get clusters,pvc,volumesnapshots -A -l ramet/service",
        )
    return LocalInventory(local_backend(settings))


def backend_of(settings: Settings) -> Backend:
    """Open the backend that the settings name."""
    if settings.backend == "kubernetes":
        return kubernetes_backend(settings)
    return local_backend(settings)


def kubernetes_backend(settings: Settings) -> KubernetesBackend:
    """Open the namespace of Kubernetes that the settings name; no request is made."""
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
    return open_kubernetes(site, settings.kubeconfig)


def local_backend(settings: Settings) -> LocalBackend:
    """Open the backend of this host."""
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


def back_up_store(settings: Settings, target: Path) -> bool:
    """Copy the store into a new file; False when it is no file of ours, but a database of a PostgreSQL server."""
    scheme, _, path = settings.store_url().partition(":///")
    if scheme != "sqlite":
        return False
    copy_sqlite(Path(path), target)
    return True


def authority_of(settings: Settings) -> Authority:
    """Return the authority of the certificates of this host's services; made once. Raises Invalid elsewhere."""
    if settings.backend == "kubernetes":
        raise Invalid(
            "NOT_ON_KUBERNETES",
            "The backend for Kubernetes has no authority on this host: each cluster of CloudNativePG has its own",
            "Name a certificate and a key with RAMET_TLS_CERT and RAMET_TLS_KEY.",
        )
    return open_authority(settings.data_dir / "secrets")


def http_certificate(settings: Settings) -> tuple[Path, Path]:
    """Return the files of the certificate of HTTP and of its key; with `auto` they are made where they do not serve.

    Raises Invalid when settings contradict each other.
    """
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


def has_storage(settings: Settings) -> bool:
    """Tell whether the data directory holds, or held, services; on Kubernetes only its store tells."""
    return has_store(settings) if settings.backend == "kubernetes" else doctor.has_storage(settings.data_dir)


def describe_host(settings: Settings) -> Sequence[tuple[str, str]]:
    """Return what this host, or the cluster, gives, without changing it, as (title, sentence) rows."""
    if settings.backend == "kubernetes":
        with closing(kubernetes_backend(settings)) as backend:
            return backend.host.describe()
    return doctor.survey(settings.data_dir, settings.memory_reserve_percent)


def has_store(settings: Settings) -> bool:
    """Tell whether there is a store to open; opening it would make a new file otherwise."""
    return bool(settings.database_url) or (settings.data_dir / "ramet.db").exists()


def _authority(backend: Backend) -> str:
    return backend.instances.authority.pem if isinstance(backend, LocalBackend) else ""


def _restore_settings(settings: Settings) -> RestoreSettings:
    """Return what holds for services without restore settings."""
    return RestoreSettings(settings.window_days, int(settings.snapshot_seconds), settings.snapshot_wal_mbs * _MIB)


def _duties(settings: Settings, plane: Plane, trusted: TrustedTime) -> list[Duty]:
    """Return what runs without a request: its name, the seconds from one run to the next, and the function."""
    snapshot_seconds = min(_LOOK_SECONDS[settings.backend], settings.snapshot_seconds)
    history, archive = timedelta(days=settings.history_days), timedelta(days=settings.archive_days)
    return [
        *_catalogue_duty(settings, plane),
        Duty("clock", 60.0, trusted.watch),
        Duty("health", 1.0, Health(plane).inspect),
        Duty("followers", 1.0, Observing(plane).observe),
        Duty("upgrades", 60.0, Upgrades(plane).apply),
        Duty("maintenance", 1.0, partial(maintain_servers, plane, trusted.now)),
        Duty("life spans", 5.0, LifeSpans(plane, trusted.now).tend, at_start=False),
        Duty("addresses", 2.0, partial(move_services, plane), at_start=False),
        Duty("logins", 10.0, EndedLogins(plane).drop, at_start=False),
        Duty("sleep", 1.0, FallingAsleep(plane).tend, at_start=False),
        Duty("waking", WAKING_SECONDS, Waking(plane).attend, at_start=False),
        Duty("lost snapshots", 60.0, LostSnapshots(plane).remove),
        Duty("storage guard", 0.25, StorageGuard(plane).check),
        Duty("snapshots", snapshot_seconds, ScheduledSnapshots(plane).take_due),
        Duty("disk", 3600.0, plane.backend.host.discard_free_blocks),
        Duty("history", 600.0, lambda: retention.remove_history(plane, trusted.now(), history)),
        Duty("drills", 60.0, partial(drills.submit_due_drill, plane)),
        Duty("overdue drills", 10.0, partial(drills.record_overdue_drills, plane)),
        Duty("archive", 5.0, OffHostArchive(plane).maintain, at_start=False),
        Duty("archive check", 3600.0, ArchiveChecks(plane, settings.archive_check_mbs * _MIB).check, at_start=False),
        Duty("old archive", 3600.0, partial(discard_old_archives, plane, archive, trusted.now), at_start=False),
        Duty("audit", 60.0, partial(_tend_audit, settings, plane, trusted), at_start=False),
        Duty("events", 600.0, partial(_remove_old_events, settings, plane, trusted), at_start=False),
        Duty("metrics", 1.0, Sampling(plane).sample),
        Duty("old metrics", 3600.0, lambda: retention.remove_samples(plane, trusted.now())),
    ]


def _remove_old_events(settings: Settings, plane: Plane, trusted: TrustedTime) -> None:
    remove_old_events(plane.store, trusted.now(), timedelta(days=settings.event_days))


def _tend_audit(settings: Settings, plane: Plane, trusted: TrustedTime) -> None:
    recorder = AuditRecorder(chain_key(plane.root_key))
    remove_old_entries(plane.store, recorder, trusted.now(), timedelta(days=settings.audit_days))
    anchors_of(settings).note(plane.store)


def installation_of(settings: Settings) -> str:
    """Return the identifier of this installation as the writer of an archive; made once."""
    return installation_id(settings.data_dir / "secrets")


def recovery_key(settings: Settings) -> RecoveryKey:
    """Return the key that encrypts the secrets in the catalogue of the archive; made once unless a file is named."""
    if settings.archive_key_file is not None:
        return read_key(settings.archive_key_file)
    return ensure_key(settings.data_dir / "secrets")


def _catalogue_duty(settings: Settings, plane: Plane) -> list[Duty]:
    if not settings.archive_url:
        return []
    secrets_directory = settings.data_dir / "secrets"
    catalogue = PublishCatalogue(
        plane.store,
        open_bucket(settings.archive_url),
        installation_of(settings),
        secrets_directory,
        recovery_key(settings),
    )
    return [Duty("catalogue", 5.0, catalogue.publish, at_start=False)]
