"""Find WAL segments, and put verified copies of them into a data directory.

A segment may move from the live pg_wal to the archive at any time, and a file in pg_wal may be recycled while it is
copied. So each copy is verified, and when it is not sound all directories are searched again.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.volumes.driver import Driver
from ramet.backends.local.wal.digests import checksum_fault
from ramet.backends.local.wal.segment import (
    PAGE_BYTES,
    UNREADABLE,
    Segment,
    fault_of,
    history_name,
    segments_in,
    unreadable,
)
from ramet.errors import Failed
from ramet.model.snapshot import lsn_number

WAL_DIRECTORY = "pg_wal"
STATUS_DIRECTORY = "archive_status"
_LOOKS = 3


class BrokenChain(Failed):
    """A segment is missing or damaged."""

    def __init__(self, code: str, segment: Segment, fault: str) -> None:
        super().__init__(code, f"WAL segment {segment.name} {fault}")
        self.segment = segment


def live_and_archived(parent: ServicePaths) -> list[Path]:
    """Return the directories of a service's WAL, the archive first: its segments are complete."""
    return [parent.archive, parent.data / WAL_DIRECTORY]


def place_history(timeline: int, directories: Sequence[Path], data: Path) -> None:
    """Put the history of a timeline into a data directory, from the first directory that has it.

    Recovery ends within a page, with which the first segment of the new timeline begins: without the history PostgreSQL
    refuses that page, because it is of an earlier timeline.
    """
    for directory in directories:
        if copy_history(directory / history_name(timeline), data):
            return


def copy_history(history: Path, data: Path) -> bool:
    """Copy the history of a timeline into a data directory; tell whether there is one. A link to one is none."""
    with contextlib.suppress(FileNotFoundError), files.plain(history) as file:
        files.write(data / WAL_DIRECTORY / history.name, file.read())
        return True
    return False


def ended_at(directory: Path, timeline: int) -> str | None:
    """Return where the WAL of the timeline before this one ended, by its history in a directory; None without one."""
    lines = files.read(directory / history_name(timeline)).splitlines()
    found = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return found[-1][1] if found else None


def check_segment(path: Path, segment: Segment, system_identifier: int, until_lsn: int | None) -> None:
    """Raise BrokenChain when the file at `path` is missing or is not that segment."""
    if not _is_there(path):
        raise BrokenChain("WAL_MISSING", segment, "is missing")
    fault = fault_of(path, segment, system_identifier, until_lsn)
    if fault is not None:
        raise BrokenChain("WAL_DAMAGED", segment, fault)


@dataclass(frozen=True)
class View:
    """A directory in which consecutive segments of one timeline can be read as one stream.

    `missing` is the first requested segment that was not found; the directory contains none after it.
    """

    directory: Path
    missing: Segment | None


class WalSource:
    """The directories that may contain a cluster's segments, in order of preference."""

    def __init__(
        self,
        driver: Driver,
        directories: Sequence[Path],
        system_identifier: int,
        recorded: Mapping[Path, str] = MappingProxyType({}),
        *,
        follows_timelines: bool = False,
    ) -> None:
        """Search these directories; `recorded` are the checksums that were recorded of their files.

        With `follows_timelines` all timelines there are one line of descent, as those of a standby are: a segment is
        that of the newest timeline that has one, which begins as those before it do.
        """
        self._follows_timelines = follows_timelines
        self._driver = driver
        self._recorded = recorded
        self._directories = directories
        self._system_identifier = system_identifier

    def find(self, segment: Segment) -> Path | None:
        """Return the first file of a segment's name, or None."""
        segment = self._newest(segment)
        for _ in range(_LOOKS):
            for directory in self._directories:
                if _is_there(directory / segment.name):
                    return directory / segment.name
        return None

    def _newest(self, segment: Segment) -> Segment:
        """Return the segment of the newest timeline that has this one; itself where timelines are not followed."""
        if not self._follows_timelines:
            return segment
        histories = {path.name for directory in self._directories for path in directory.glob("*.history")}
        later = sorted((int(name[:8], 16) for name in histories), reverse=True)
        others = (Segment(timeline, segment.number) for timeline in later if timeline > segment.timeline)
        there = (one for one in others if any(_is_there(directory / one.name) for directory in self._directories))
        return next(there, segment)

    @contextlib.contextmanager
    def view(self, segments: Sequence[Segment]) -> Iterator[View]:
        """Yield a directory with symbolic links to consecutive segments."""
        with tempfile.TemporaryDirectory(prefix="ramet-wal-") as name:
            missing = None
            for segment in segments:
                path = self.find(segment)
                if path is None:
                    missing = segment
                    break
                (Path(name) / segment.name).symlink_to(path)
            yield View(Path(name), missing)

    def fault_of(self, segment: Segment, until_lsn: int | None) -> str | None:
        """Return what is wrong with the file of a segment; None when nothing is, or there is no file."""
        path, segment = self.find(segment), self._newest(segment)
        return None if path is None else fault_of(path, segment, self._system_identifier, until_lsn)

    def last_written(self, first: Segment) -> Segment:
        """Return the last segment that the server has begun to write, from `first` on.

        The first page of each file is checked, because a recycled file has a later name than its content. A file
        that the disk cannot read may have been begun, and counts.
        """
        last = first
        for directory in self._directories:
            for segment in segments_in(directory) if files.is_there(directory) else []:
                is_ours = segment.timeline == first.timeline or self._follows_timelines
                is_later = is_ours and segment.number > last.number
                if is_later and self._may_be_begun(directory / segment.name, segment):
                    last = Segment(first.timeline, segment.number)
        return last

    def _may_be_begun(self, path: Path, segment: Segment) -> bool:
        return fault_of(path, segment, self._system_identifier, segment.start + PAGE_BYTES) in (None, UNREADABLE)

    def place_all(self, segments: Sequence[Segment], data: Path, until_lsn: str | None) -> None:
        """Put segments into a data directory; the last one is verified up to `until_lsn` only (None: all)."""
        if until_lsn is not None and self._follows_timelines and lsn_number(until_lsn) == segments[-1].end:
            until_lsn = None  # a standby that has replayed a WAL switch: what is behind that in the segment is blank
        for segment in segments:
            self.place(segment, data, until_lsn if segment == segments[-1] else None)

    def place(self, segment: Segment, data: Path, until_lsn: str | None = None, *, complete: bool = True) -> Path:
        """Put a verified copy of one segment into a data directory's pg_wal and return its path.

        A `complete` one is marked as archived: it is the parent's, and must not be archived by the fork.
        Raises BrokenChain, naming the segment, when no directory has a sound one.
        """
        segment = self._newest(segment)
        wal = data / WAL_DIRECTORY
        target = wal / segment.name
        target.unlink(missing_ok=True)
        fault = None
        for _ in range(_LOOKS):
            for directory in self._directories:
                fault = self._try(directory / segment.name, target, segment, until_lsn) or fault
                if target.exists():
                    if complete:
                        files.write(files.make_directory(wal, STATUS_DIRECTORY) / f"{segment.name}.done")
                    return target
        if fault is None:
            raise BrokenChain("WAL_MISSING", segment, "is missing")
        raise BrokenChain("WAL_DAMAGED", segment, fault)

    def _try(self, source: Path, target: Path, segment: Segment, until_lsn: str | None) -> str | None:
        """Copy one file, and keep the copy when it is sound; return what is wrong with it, if it exists.

        The original is checked, because its pages are cached, and only after the copy: a file that still has its name
        then was not recycled during the copy.
        """
        until = None if until_lsn is None else lsn_number(until_lsn)
        try:
            self._driver.clone_file(source, target)
            fault = fault_of(source, segment, self._system_identifier, until)
            fault = fault or checksum_fault(source, self._recorded.get(source))
        except FileNotFoundError:
            target.unlink(missing_ok=True)
            return None
        except OSError as error:
            fault = unreadable(error)
        if fault is not None:
            target.unlink(missing_ok=True)
        return fault


def _is_there(path: Path) -> bool:
    """Tell whether there is a file; one that the disk cannot read counts."""
    try:
        return files.is_there(path)
    except OSError as error:
        unreadable(error)
        return True
