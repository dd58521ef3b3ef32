"""Secured copies: what is the same for each fork of a snapshot is done once, in the background.

A server of the platform's own secures a copy of a prepared snapshot as it would secure a fork: no password of the
parent is valid in it, and nothing in it acts on the world outside. Its fork only gets the password of its own admin, in
its files before its server starts, or else in a session.

The record of a secured copy is written last and removed first, and each fork gets a copy of it. The data has to confirm
the record: until its fork has a password, the admin has the verifier that the record names. A fork whose data does not
confirm it, or that other code has secured, is secured as any other.
"""

import hashlib
import logging
import shutil
from collections.abc import Sequence
from dataclasses import replace as with_values
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ramet import __version__
from ramet.backends.interface.values import Server
from ramet.backends.local.host import files
from ramet.backends.local.host.own_faults import GONE, looking_at
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.process import postgres
from ramet.backends.local.restore import offline_verifier
from ramet.backends.local.restore.spares import Spares
from ramet.backends.local.server import configuration
from ramet.backends.local.server.configuration import Phase, first_boot
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sql import read_only_access, roles, securing
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.volumes.flush import flush_tree
from ramet.backends.local.wal.control_file import read_control_data
from ramet.errors import Unavailable
from ramet.machine.waiting import wait_until
from ramet.model import passwords
from ramet.model.passwords import unusable_verifier
from ramet.model.secret import Secret
from ramet.model.size import Size

_log = logging.getLogger(__name__)
_TREE = "secured"
_NOTE = "secured.json"
_SPARE = "secured-spare-"
_WORKSHOP = "securing"
_WAIT_SECONDS = 10.0  # who wants to stop or delete the service waits for this
_LOOK_SECONDS = 0.5
_KILL_SECONDS = 10.0
# The copy is flushed afterwards, and nothing of it belongs into an archive.
_SETTINGS = {"fsync": "off", "archive_mode": "off"}


def _digest_of_code() -> str:
    """Return a digest of all code that may change what is done to a fork."""
    modules = [Path(module.__file__ or "") for module in (configuration, passwords)]
    sources = sorted([Path(__file__), *modules, *Path(securing.__file__).parent.glob("*.py")])
    return hashlib.sha256(b"".join([__version__.encode(), *(path.read_bytes() for path in sources)])).hexdigest()[:16]


_CODE = _digest_of_code()  # at import: later the files may be those of another release


class Secured(msgspec.Struct, frozen=True):
    """The record of a secured copy: its shutdown checkpoint, and the report of what was done to it.

    `verifier` is the admin's, which no password belongs to; in the record of a fork that got its own, it is that one.
    `pg_authid` is the file with the verifiers, below the data directory. `code` identifies the code that secured it.
    With `failed` there is no such copy: it could not be made.
    """

    code: str
    wal_level: str
    failed: bool = False
    verifier: str = ""
    pg_authid: str = ""
    found: dict[str, Any] = {}
    checkpoint_lsn: str = ""
    timeline: int = 0
    system_identifier: int = 0

    def is_for(self, server: Server) -> bool:
        """Tell whether this code would do the same to a copy for a server with such settings."""
        return self.code == _CODE and self.wal_level == server.wal_level.value


def make(instances: Instances, driver: Driver, server: Server, prepared: Path) -> bool:
    """Make the secured copy of a prepared copy beside it, unless it is there; tell whether it is.

    The caller prevents others from doing so at the same time. A copy that cannot be secured is not tried again.
    """
    directory, parent = prepared.parent, instances.paths(server.service_id)
    known = noted(directory)
    if known is None or not known.is_for(server):
        drop(driver, parent, directory)
        known = _make(instances, driver, server, prepared, _workshop(parent, directory))
        _clear(driver, parent, directory)
        flush_tree(directory, prepared)
        note(directory, known)
    return not known.failed


def _make(instances: Instances, driver: Driver, server: Server, prepared: Path, paths: ServicePaths) -> Secured:
    begun = Secured(_CODE, server.wal_level.value, verifier=unusable_verifier().reveal())
    # Closed to clients, without a port, and with as little memory as any server.
    copy = with_values(server, verifier=Secret(begun.verifier), port=0, size=Size(), parameters=())
    try:
        instances.config.make_sockets(instances.paths(server.service_id))
        for directory in (paths.root, paths.conf, paths.log, paths.sockets):
            instances.account.make_directory(directory)
        driver.clone_tree(prepared, paths.data)
        instances.config.write_to(copy, paths, Phase.CLOSED)
        found, pg_authid = _secure(instances, copy, paths)
        control = read_control_data(instances.installation_of(server), paths.data)
        if not control.is_clean:
            raise OSError("its server crashed as it stopped")
        paths.data.rename(prepared.with_name(_TREE))
    except Exception as error:  # noqa: BLE001 - whatever it is: forks do not need this copy
        _log.warning("forks of a snapshot of service %s are not secured in advance: %s", server.service_id, error)
        return replace(begun, failed=True)
    return replace(
        begun,
        pg_authid=pg_authid,
        found=found,
        checkpoint_lsn=control.checkpoint_lsn,
        timeline=control.timeline,
        system_identifier=control.system_identifier,
    )


def _secure(instances: Instances, copy: Server, paths: ServicePaths) -> tuple[dict[str, Any], str]:
    """Start the copy's server, secure it, and stop it; return what was done, and the file with the verifiers."""
    settings = {**first_boot(), **_SETTINGS}
    postgres.start(paths, instances.installation_of(copy), instances.account, settings)
    if not wait_until(lambda: postgres.await_ready(paths, _LOOK_SECONDS).ready, _WAIT_SECONDS):
        raise TimeoutError(f"its server did not start within {_WAIT_SECONDS:g} s")
    found, is_current = securing.secure_fork(paths, copy, neutralize=True)
    if not is_current:
        read_only_access.renew(paths)
    pg_authid = roles.file_of_verifiers(paths)
    if not wait_until(lambda: postgres.stop(paths, _LOOK_SECONDS), _WAIT_SECONDS):
        raise TimeoutError(f"its server did not stop within {_WAIT_SECONDS:g} s")
    return found, pg_authid


def _workshop(parent: ServicePaths, directory: Path) -> ServicePaths:
    """Return the paths of the server that secures a copy: its sockets are in the directory of the parent's.

    No other snapshot has the same ones: several of one service may be secured at once.
    """
    return ServicePaths(directory / _WORKSHOP, parent.sockets / directory.name)


def drop(driver: Driver, parent: ServicePaths, directory: Path) -> None:
    """Remove the secured copy of a snapshot, even an incomplete one, and its spares. May run twice."""
    note(directory, None)
    spares_in(directory).drop(driver)
    driver.remove_tree(directory / _TREE)
    _clear(driver, parent, directory)


def end_all(parent: ServicePaths) -> None:
    """End the servers that secure copies of a service's snapshots. May run again.

    Raises Unavailable while they are still shutting down, or when that cannot be determined.
    """
    with looking_at(f"what secures snapshots of service {parent.service_id}"):
        for root in parent.snapshots.glob(f"*/{_WORKSHOP}"):
            _end(_workshop(parent, root.parent), parent.service_id)


def _end(paths: ServicePaths, service_id: str) -> None:
    if not postgres.kill(paths, _KILL_SECONDS):
        raise Unavailable("SERVER_ENDING", f"The server of service {service_id} is still shutting down")


def _clear(driver: Driver, parent: ServicePaths, directory: Path) -> None:
    """End the server that secures a copy, which a killed process may have left, and remove its files."""
    paths = _workshop(parent, directory)
    if not paths.root.exists():
        return
    _end(paths, parent.service_id)
    driver.remove_tree(paths.data)
    for path in (paths.sockets, paths.root):
        shutil.rmtree(path, ignore_errors=not path.exists())


def spares_in(directory: Path) -> Spares:
    """Return the secured copy of a snapshot with its spares."""
    return Spares(directory / _TREE, _SPARE)


def fitting(directory: Path, child: Server, neutralize: bool | None) -> Secured | None:
    """Return the record of the secured copy of a snapshot if a fork may be a copy of it.

    A fork that is not neutralized may where there was nothing to neutralize. With `neutralize` None it is no fork.
    """
    known = noted(directory) if neutralize is not None else None
    if known is None or known.failed or not known.is_for(child):
        return None
    return known if neutralize or not securing.has_neutralized(known.found) else None


def noted(directory: Path) -> Secured | None:
    """Return the record of a secured copy, which its forks have too; None where there is none."""
    try:
        return msgspec.json.decode(files.read_bytes(directory / _NOTE), type=Secured)
    except (*GONE, msgspec.MsgspecError):
        return None


def note(directory: Path, secured: Secured | None) -> None:
    """Write the record of a secured copy, beside the data of its forks too; with None there is none any more."""
    if secured is None:
        (directory / _NOTE).unlink(missing_ok=True)
    else:
        files.write(directory / _NOTE, msgspec.json.encode(secured))


def give_verifier(secured: Secured, data: Path, verifier: Secret) -> Secured:
    """Give a copy that never ran the verifier of its admin, if that can be done in its files; return its record."""
    is_given = offline_verifier.replace_verifier(data / secured.pg_authid, Secret(secured.verifier), verifier)
    return replace(secured, verifier=verifier.reveal()) if is_given else secured


def changed_files(paths: ServicePaths) -> Sequence[Path]:
    """Return the files of a fork's data in which `give_verifier` may have changed something."""
    known = noted(paths.root)
    return [] if known is None else [paths.data / known.pg_authid]


def has_own_verifier(paths: ServicePaths, server: Server) -> bool:
    """Tell whether a fork was secured in advance by this code, and `give_verifier` has given its admin the verifier."""
    known = noted(paths.root)
    if known is None or not known.is_for(server) or known.verifier != server.verifier.reveal():
        return False
    return offline_verifier.has_verifier(paths.data / known.pg_authid, server.verifier)


def complete(paths: ServicePaths, server: Server, *, neutralize: bool) -> dict[str, Any] | None:
    """Give a fork that was secured in advance its own password; return its report, None if it is to be secured.

    May run again, until `note` removes the record.
    """
    known = fitting(paths.root, server, neutralize)
    if known is None:
        return None
    given = Secret(known.verifier)
    if not (has_own_verifier(paths, server) or roles.replace_verifier(paths, given, server.verifier)):
        return None
    return known.found if neutralize else securing.without_neutralization(known.found)
