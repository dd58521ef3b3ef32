"""One recovery into a data directory: its mark, the secrets it brings, the fence, and how far it is."""

import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec
import sqlalchemy as sa

from ramet.archive import owner
from ramet.archive.object_store import Bucket
from ramet.errors import Invalid, WrongState
from ramet.machine.secret_files import replace_secret
from ramet.model.procedures import SPECS, ProcedureName
from ramet.model.service import Service, status_of
from ramet.model.timestamps import rfc3339
from ramet.procedures.state import RecoverState
from ramet.recovery.catalogue import Secrets
from ramet.recovery.collect import SECRET_FILES
from ramet.recovery.contents import Contents
from ramet.recovery.sealed import KEY_FILE, RecoveryKey
from ramet.store import operations, services
from ramet.store.database import Store
from ramet.store.operations import Operation

_MARK = "recovery.json"


class Mark(msgspec.Struct, frozen=True):
    """The archive that a data directory was recovered from, and whether its secrets came along."""

    url: str
    has_secrets: bool = True


def check_data_dir(data_dir: Path, url: str, *, is_used: bool) -> None:
    """Raise WrongState for a data directory that has something other than what came from this archive."""
    mark = _mark_of(data_dir)
    if (mark is None and is_used) or (mark is not None and mark.url != url):
        came_from = "or its store is in use" if mark is None else f"was recovered from {mark.url}"
        raise WrongState(
            "DATA_DIR_IN_USE",
            f"The data directory {data_dir} {came_from}",
            "Name a new directory with --data, and an empty database in RAMET_DATABASE_URL where that is set.",
        )


def mark_data_dir(data_dir: Path, url: str, secrets: Secrets, key: RecoveryKey | None) -> bool:
    """Bring the secrets into a data directory, once, and record where they came from. May run twice.

    Return whether it has them: what began without the key goes on without them.
    """
    path, directory = data_dir / _MARK, data_dir / "secrets"
    if (known := _mark_of(data_dir)) is not None:
        return known.has_secrets
    for name in SECRET_FILES:
        if name in secrets.files:
            replace_secret(directory / name, secrets.files[name])
    if key is not None:
        replace_secret(directory / KEY_FILE, key.secret.reveal().encode() + b"\n")
    replace_secret(path, msgspec.json.encode(Mark(url, has_secrets=key is not None)))
    return key is not None


def _mark_of(data_dir: Path) -> Mark | None:
    try:
        return msgspec.json.decode((data_dir / _MARK).read_bytes(), type=Mark)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def needs_take_over(contents: Contents, installation: str | None) -> bool:
    """Tell whether another installation is the writer of the archive."""
    return contents.owner is None or contents.owner.installation != installation


def describe_writer(contents: Contents, now: datetime) -> str:
    """Say which installation writes to the archive, and when it did so last."""
    last, catalogue = contents.last_written_at, contents.catalogues[0]
    installation, host = catalogue.installation, catalogue.host
    if contents.owner is not None:
        installation, host = contents.owner.installation, contents.owner.host
    here = ", which is the name of this host too" if host == socket.gethostname() else ""
    minutes = max(0, int((now - last).total_seconds() // 60))
    return (
        f"The archive {contents.url} belongs to installation {owner.short_id(installation)} on {host}{here};"
        f" it was written to last at {rfc3339(last)}, {minutes} minutes ago"
    )


def take_over_needed(contents: Contents, now: datetime) -> Invalid:
    """Return the error for a recovery of an archive that it may not take over."""
    return Invalid(
        "TAKE_OVER_NEEDED",
        describe_writer(contents, now),
        "Make sure that this installation is lost, or stop it with 'ramet down'; then give --take-over. It is refused"
        " from then on, and what it writes afterwards is lost.",
    )


def take_over(bucket: Bucket, installation: str) -> None:
    """Make an installation the writer of the archive. May run twice."""
    owner.take_over(bucket, installation)
    owner.check(bucket, installation)


@dataclass(frozen=True)
class Progress:
    """How far the recovery of a service is.

    `step` is empty when it is over; the bytes are known from then on, and what was not checked. `target` is None for
    the end of the archive.
    """

    service: Service
    step: str
    detail: str
    target: datetime | None = None
    downloaded_bytes: int = 0
    unread: str = ""

    @property
    def is_over(self) -> bool:
        """Whether it succeeded or failed."""
        return not self.step

    @property
    def status(self) -> str:
        """The status that clients see."""
        return status_of(self.service).value


def progress_of(store: Store, service_ids: list[str]) -> list[Progress]:
    """Return how far the recovery of each of these services is."""
    with store.read() as tx:
        found = [services.get_service(tx, service_id) for service_id in service_ids]
        known = [one for one in found if one is not None]
        return [_progress(one, recovery_of(tx, one.id)) for one in known]


def is_tried_again(service: Service) -> bool:
    """Tell whether the recovery of a service failed, so that another one may begin."""
    return service.failed_at is not None and service.ready_at is None and service.deleted_at is None


def recovery_of(tx: sa.Connection, service_id: str) -> Operation | None:
    """Return the last recovery of a service, under way or over; None when it was not recovered here."""
    return next(iter(operations.of_subject(tx, service_id, ProcedureName.RECOVER, 1)), None)


def target_of(recovery: Operation) -> datetime | None:
    """Return the time that a service is, or was, recovered to; None: to the end of what the archive had."""
    return msgspec.convert(recovery.state, RecoverState).target


def _progress(service: Service, recovery: Operation | None) -> Progress:
    if recovery is None:
        return Progress(service, "", service.failure or "")
    target = target_of(recovery)
    if recovery.finished_at is None:
        step = SPECS[ProcedureName.RECOVER].steps[recovery.step]
        return Progress(service, step, recovery.error or recovery.progress, target)
    fetched = (recovery.state.get("capture") or {"facts": {}})["facts"].get("archive", {})
    counted = {name: fetched[name] for name in ("downloaded_bytes", "unread") if name in fetched}
    return Progress(service, "", service.failure or "", target, **counted)
