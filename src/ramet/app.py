"""The only place that knows every concrete class: it wires settings, store, backend, operations and HTTP together."""

import logging
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from ipaddress import ip_network
from typing import Any, cast

import msgspec
from litestar import Litestar

from ramet import __version__
from ramet.api.application import create_app, openapi_json
from ramet.archive.object_store import open_bucket
from ramet.audit.recorder import AuditRecorder
from ramet.audit.verbs import remove_old_entries
from ramet.backends.interface.backend import Backend
from ramet.client.elsewhere import open_elsewhere
from ramet.configured import (
    anchors_of,
    backend_of,
    has_storage,
    installation_of,
    most_connections,
    open_store,
    recovery_key,
    root_key,
)
from ramet.console.application import Console, open_console
from ramet.control.duties import drills, retention
from ramet.control.duties.addresses import move_services
from ramet.control.duties.archive import ArchiveChecks, OffHostArchive, discard_old_archives
from ramet.control.duties.clock import TrustedTime
from ramet.control.duties.expiry import Expiry
from ramet.control.duties.health import Health
from ramet.control.duties.life_spans import LifeSpans
from ramet.control.duties.logins import EndedLogins
from ramet.control.duties.lost_snapshots import LostSnapshots
from ramet.control.duties.maintenance import maintain_servers
from ramet.control.duties.own_space import OwnSpace
from ramet.control.duties.refresh import Refresh
from ramet.control.duties.sampling import Sampling
from ramet.control.duties.sleep import WAKING_SECONDS, FallingAsleep, Waking
from ramet.control.duties.snapshots import ScheduledSnapshots
from ramet.control.duties.storage_guard import StorageGuard
from ramet.control.placement import Placement
from ramet.control.plane import Plane, utc_now
from ramet.control.projects import Projects
from ramet.control.slots import Slots
from ramet.control.waits import Waits
from ramet.decoded_types import learn_types
from ramet.errors import Error
from ramet.events.dispatcher import Dispatcher
from ramet.events.recorder import EventRecorder
from ramet.events.sender import Sender
from ramet.events.stream import EventFeed, remove_old_events
from ramet.followers.observation import Observing
from ramet.model.audit import chain_key
from ramet.model.procedures import COPYING_STEPS, SENDING_STEPS
from ramet.model.restore_window import RestoreSettings, copies_all_data, usual_settings
from ramet.model.warm_forks import MOST_FORKS
from ramet.monitoring.loop_lag import watch_loop
from ramet.monitoring.monitoring import Monitoring, open_monitoring
from ramet.monitoring.scrape import Access, Scrape
from ramet.moves.procedure import Move
from ramet.operations.schedule import Duty, Schedule
from ramet.operations.worker import Worker
from ramet.procedures.registry import all_procedures
from ramet.procedures.servers import Tools
from ramet.recovery.publish import PublishCatalogue
from ramet.reference.page import reference_router
from ramet.settings import Settings, make_data_dir
from ramet.store.database import Store
from ramet.warm_forks.giving_way import give_way
from ramet.warm_forks.keeping import EVERY_SECONDS, KeepingWarm

_log = logging.getLogger(__name__)
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
    waits: Waits
    dispatcher: Dispatcher
    schedule: Schedule
    monitoring: Monitoring

    @classmethod
    def open(cls, settings: Settings) -> "Runtime":
        """Open the store and the backend of a data directory, and wire everything over them."""
        make_data_dir(settings.data_dir)
        if not has_storage(settings):  # where there is storage, a store that is missing was lost
            return wire(settings, open_store(settings), backend_of(settings))
        backend = backend_of(settings)
        _make_room(backend)
        return wire(settings, open_store(settings), backend)

    def http(self) -> Litestar:
        """Return the HTTP application over the verbs."""
        return create_app(
            self.plane,
            self.projects,
            version=__version__,
            beside=[*self.console.routes(), self.scrape().route(), reference_router(_document)],
            refuse_beside=self.console.refuse,
            observers=self.monitoring.request_observers(),
            lifespan=[watch_loop(self.monitoring.instruments.observe_loop)],
            trusted_proxies=[ip_network(each) for each in self.settings.trusted_proxies],
            event_feed=self.event_feed,
            waits=self.waits,
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
            self.schedule.take_over()
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
        self.waits.close()

    def close(self) -> None:
        """Close the store, and what this process has opened of a cluster. Servers keep running."""
        self.backend.close()
        self.monitoring.close()
        self.store.close()


def _make_room(backend: Backend) -> None:
    """Remove the reserve on a full disk, so that the store can write; the store itself says when it cannot."""
    try:
        backend.host.storage_pressure(None, lasting=False)
    except (OSError, Error) as error:
        _log.warning("Cannot make room in the storage: %s", error)


def wire(settings: Settings, store: Store, backend: Backend) -> Runtime:
    """Put a runtime together over an open store and backend."""
    trusted = TrustedTime(settings.data_dir / "clock.json")
    rest, window = timedelta(seconds=settings.fork_rest_seconds), timedelta(days=settings.window_days)
    tools = Tools(store, backend, utc_now, rest, trusted.now, window=window)
    key = root_key(settings)
    procedures = [*all_procedures(tools), Move(tools, open_elsewhere, key).procedure()]
    monitoring = open_monitoring(__version__, settings.traces_url)
    store.recorders.append(monitoring.instruments.count_claims)
    threads = settings.worker_threads
    worker = Worker(store, procedures, threads, observe=monitoring.observe_step, long=long_steps(backend))
    placement = Placement(
        settings.region_code, settings.endpoint_host, settings.port_range, settings.plaintext_endpoints
    )
    restore = _restore_settings(settings, backend.host.volume_type())
    plane = Plane(store, backend, placement, key, worker.wake, utc_now, restore)
    held = Slots(most_connections(settings) // 2)
    plane = replace(plane, give_way=partial(give_way, plane), standby_sources=settings.standby_sources, held=held)
    schedule = Schedule(store, _duties(settings, plane, trusted))
    projects = Projects(store)
    console = open_console(plane, projects, key, _document)
    feed, waits, dispatcher = EventFeed(store), Waits(plane), open_dispatcher(settings, plane)
    store.recorders.append(waits.record)
    learn_types()  # last: what is wired here is imported here
    return Runtime(
        settings, store, backend, plane, projects, console, worker, feed, waits, dispatcher, schedule, monitoring
    )


def _document() -> dict[str, Any]:
    """Return openapi.json."""
    return cast("dict[str, Any]", msgspec.json.decode(openapi_json(__version__)))


def open_dispatcher(settings: Settings, plane: Plane) -> Dispatcher:
    """Return what delivers events to webhooks, and let the store record events."""
    private = [ip_network(each) for each in settings.webhook_private_targets]
    dispatcher = Dispatcher(plane, Sender(private))
    # Before the audit: whoever takes both of their locks takes them in the same order.
    plane.store.recorders.insert(0, EventRecorder(plane.clock, dispatcher.wake).record)
    return dispatcher


def _restore_settings(settings: Settings, volume_type: str) -> RestoreSettings:
    """Return what holds for services without restore settings."""
    seconds = settings.snapshot_seconds or usual_settings(volume_type).snapshot_interval_seconds
    return RestoreSettings(settings.window_days, seconds, settings.snapshot_wal_mbs * _MIB)


def _duties(settings: Settings, plane: Plane, trusted: TrustedTime) -> list[Duty]:
    """Return what runs without a request: its name, the seconds from one run to the next, and the function."""
    snapshot_seconds = min(_LOOK_SECONDS[settings.backend], plane.restore.snapshot_interval_seconds)
    history, archive = timedelta(days=settings.history_days), timedelta(days=settings.archive_days)
    guard = StorageGuard(plane)
    most_unasked, following = automatic_forks(settings, plane.backend.host.volume_type()), Observing(plane)
    return [
        *_catalogue_duty(settings, plane),
        Duty("clock", 60.0, trusted.watch),
        Duty("health", 1.0, Health(plane).inspect),
        Duty("followers", 1.0, following.observe_standbys),
        Duty("subscriptions", 1.0, following.observe_subscriptions, at_start=False),
        Duty("upgrades", 60.0, Refresh(plane).apply),
        Duty("maintenance", 1.0, partial(maintain_servers, plane, trusted.now)),
        Duty("life spans", 5.0, LifeSpans(plane, trusted.now).tend, at_start=False),
        Duty("addresses", 2.0, partial(move_services, plane), at_start=False),
        Duty("logins", 10.0, EndedLogins(plane).drop, at_start=False),
        Duty("sleep", 1.0, FallingAsleep(plane, trusted.now).tend, at_start=False),
        Duty("waking", WAKING_SECONDS, Waking(plane).attend, at_start=False),
        Duty("warm forks", EVERY_SECONDS, KeepingWarm(plane, most_unasked).maintain, at_start=False),
        Duty("lost snapshots", 60.0, LostSnapshots(plane).remove),
        Duty("storage guard", 0.25, guard.check),
        Duty("snapshots", snapshot_seconds, ScheduledSnapshots(plane).take_due),
        Duty("expired snapshots", 60.0, Expiry(plane, trusted.now, guard).remove_due, at_start=False),
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
        Duty("own space", 1.0, OwnSpace(plane).measure),
        Duty("old metrics", 600.0, lambda: retention.remove_samples(plane, trusted.now()), at_start=False),
    ]


def long_steps(backend: Backend) -> frozenset[str]:
    """Return the steps that leave two threads of the worker to others, because each may take one for long.

    Where copies do, which take hours, deletions do not wait for a thread: they make room.
    """
    if copies_all_data(backend.host.volume_type()):
        return COPYING_STEPS
    return frozenset() if backend.archive.url() is None else SENDING_STEPS


def automatic_forks(settings: Settings, volume_type: str) -> int:
    """Return how many forks a service may keep ready that was not told to: none where each is a copy of all data."""
    if settings.automatic_warm_forks is not None:
        return settings.automatic_warm_forks
    return 0 if settings.backend != "local" or copies_all_data(volume_type) else MOST_FORKS


def _remove_old_events(settings: Settings, plane: Plane, trusted: TrustedTime) -> None:
    remove_old_events(plane.store, trusted.now(), timedelta(days=settings.event_days))


def _tend_audit(settings: Settings, plane: Plane, trusted: TrustedTime) -> None:
    recorder = AuditRecorder(chain_key(plane.root_key))
    remove_old_entries(plane.store, recorder, trusted.now(), timedelta(days=settings.audit_days))
    anchors_of(settings).note(plane.store)


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
