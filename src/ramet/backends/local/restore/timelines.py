"""Timelines of data that replaces the data of a service, whose snapshots and archived WAL stay.

Recovery begins the first timeline, after the one it ends on, that has no history file. So the timelines that the
service has had get one, before anything is recovered. Data whose recovery has not left its timeline, for example
because it was shut down cleanly, is recovered once more, by archive recovery, which always leaves it.
"""

from contextlib import suppress
from pathlib import Path

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.restore import snapshots
from ramet.backends.local.restore.recovery import COUNT_SUBSCRIPTIONS
from ramet.backends.local.restore.single_user import RECOVERY_SIGNAL, SingleUser
from ramet.backends.local.wal import digests
from ramet.backends.local.wal.control_file import ControlData, read_control_data
from ramet.backends.local.wal.locate import STATUS_DIRECTORY, WAL_DIRECTORY
from ramet.backends.local.wal.segment import history_name, segment_named
from ramet.errors import Failed
from ramet.machine.installation import Installation

_TIMELINE_DIGITS = 8
_RESERVED = "reserved by Ramet"
_NO_RESTORE = {"restore_command": "false", "recovery_target_timeline": "current"}


def newest(paths: ServicePaths, installation: Installation) -> int:
    """Return the newest timeline that a service has ever had, by its data, its archive and its snapshots.

    Without a readable control file the WAL of the data tells it.
    """
    names = [path.name for place in (paths.archive, paths.data / WAL_DIRECTORY) for path in _files(place)]
    found = [timeline for name in names if (timeline := _timeline_of(name)) is not None]
    found += [base.facts.timeline for _, base in snapshots.in_wal_order(paths)]
    with suppress(Failed):
        found.append(read_control_data(installation, paths.data).timeline)
    return max(found, default=1)


def reserve(data: Path, last: int, installation: Installation) -> None:
    """Let recovery of captured data begin no timeline up to `last`. May run again."""
    wal = data / WAL_DIRECTORY
    for timeline in range(read_control_data(installation, data).timeline + 1, last + 1):
        history = wal / history_name(timeline)
        if not history.exists():
            files.write(history, f"{timeline - 1}\t0/0\t{_RESERVED}\n")


def leave(place: SingleUser, last: int, timeout_seconds: float) -> ControlData | str:
    """Bring recovered data to a timeline after `last`, shut down cleanly; return a text while that is under way.

    May be called repeatedly.
    """
    control = read_control_data(place.installation, place.data)
    signal = place.data / RECOVERY_SIGNAL
    if control.timeline <= last and control.is_clean and not signal.exists():
        reserve(place.data, last, place.installation)
        files.write(signal)
    leaves = control.timeline if control.timeline <= last else None
    found = place.recover(_NO_RESTORE, COUNT_SUBSCRIPTIONS, timeout_seconds, leaves_timeline=leaves)
    if isinstance(found, str):
        return found
    if found.timeline <= last:
        raise Failed(
            "WRONG_TIMELINE",
            f"{place.data} is on timeline {found.timeline}, which the service has had; expected one after {last}",
            "Restore again.",
        )
    return found


def seal(data: Path, timeline: int) -> None:
    """Keep the server of a data directory from archiving anything of other timelines than its own. May run again."""
    wal = data / WAL_DIRECTORY
    status = files.make_directory(wal, STATUS_DIRECTORY)
    for path in _files(wal):
        segment = segment_named(path.name[: 3 * _TIMELINE_DIGITS])
        is_reserved = path.suffix == ".history" and _RESERVED in files.read(path, errors="replace")
        if is_reserved:
            path.unlink()
        elif segment is not None and segment.timeline != timeline:
            (status / f"{path.name}.ready").unlink(missing_ok=True)
            files.write(status / f"{path.name}.done")


def withdraw(paths: ServicePaths, last: int) -> None:
    """Remove what the archive of a service has of timelines after `last`. May run again."""
    for path in _files(paths.archive):
        timeline = _timeline_of(path.name)
        if timeline is not None and timeline > last:
            path.unlink()
    digests.discard_after(paths, last)


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.is_file()] if directory.is_dir() else []


def _timeline_of(name: str) -> int | None:
    """Return the timeline of a segment, of what belongs to one, or of a history file; None for every other name."""
    segment = segment_named(name[: 3 * _TIMELINE_DIGITS])
    if segment is not None:
        return segment.timeline
    is_history = name.endswith(".history") and len(name) == len("00000001.history")
    return int(name[:_TIMELINE_DIGITS], 16) if is_history else None
