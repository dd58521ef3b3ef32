"""The pod that reads WAL: what its shell does, how much is in it, and what becomes of the search when it ends."""

import gzip
import os
import struct
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ramet.backends.interface.values import Capture
from ramet.backends.kubernetes import archiving, names, past
from ramet.backends.kubernetes.recovery_point import Reading
from ramet.backends.kubernetes.wal_reader import _READ, _UNPACK
from ramet.backends.local.wal.boundary import CutSearch
from ramet.backends.local.wal.segment import SEGMENT_BYTES, Segment, begins_record, shown_lsn
from ramet.errors import Failed, Unavailable
from ramet.model.snapshot import lsn_number
from tests.backends.kubernetes.past_world import FORK, SECOND, World
from tests.backends.kubernetes.servers import SHARED

_POD = names.reader_name(FORK.service_id)

_PROGRAM = r"""#!/bin/sh
printf '%s|%s|caf\351 \303\251\n' "$TZ" "$*"
echo "it failed" >&2
exit 3
"""


def test_what_is_printed_is_utf8_with_the_status_and_the_errors_at_the_end(tmp_path: Path) -> None:
    program = tmp_path / "pg_waldump"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", "-c", _READ, "read", "0", "<a>0", "--path", "pg wal"]
    run = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert run.stdout == b"<a>0|--path pg wal|caf \nstatus: 3\nit failed\n"


def test_a_segment_is_unpacked_once_it_is_complete_and_earlier_ones_are_removed(tmp_path: Path) -> None:
    for name in ("1", "1.as-1", "2", "2.as-2", "3", "3.as-other"):
        (tmp_path / name).touch()
    given = [str(tmp_path / "3"), "as-3", *(str(tmp_path / name) for name in ("1", "2"))]
    subprocess.run(["sh", "-c", _UNPACK, "unpack", *given], input=gzip.compress(b"whole"), check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "3.as-3"]
    assert (tmp_path / "3").read_bytes() == b"whole"


@dataclass
class Reader:
    """The pod, as a disk of segments: it prints the commits that it has, and ends after some segments."""

    world: World
    lasts: int
    there: list[str] = field(default_factory=list)
    got: int = 0
    most: int = 0
    longest: int = 0
    broken: list[str] = field(default_factory=list)
    runs: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, pod: str, command: list[str], stdin: str) -> tuple[str, str, int]:
        """Do what a program in it does; one that has ended does nothing."""
        world = self.world
        if pod != _POD:
            return world.control, "", 0
        if self.got >= self.lasts:
            self.there, self.got = [], 0
            world.found.put("pods", {**world.found.objects["pods", _POD], "status": {"phase": "Failed"}})
            return "", "the pod is gone", 1
        if command[0] == "ls":
            return "\n".join(f"{name}.{name}" for name in self.there), "", 0
        if "unpack" in command:
            path, _, *old = command[command.index("unpack") + 1 :]
            gone = {one.rpartition("/")[2] for one in old}
            self.there = [one for one in self.there if one not in gone] + [path.rpartition("/")[2]]
            self.got, self.most = self.got + 1, max(self.most, len(self.there))
            return "", "", 0
        self.runs.append((command[command.index("--start") + 1], command[command.index("--end") + 1]))
        return self._printed(command, *self.runs[-1]), "", 0

    def _printed(self, command: list[str], start: str, end: str) -> str:
        for number in range(lsn_number(start) // SEGMENT_BYTES, (lsn_number(end) - 1) // SEGMENT_BYTES + 1):
            assert Segment(1, number).name in self.there
        if self.broken:
            return self.broken.pop()
        if lsn_number(end) < self.longest:
            return f"status: 1\npg_waldump: error: could not find a valid record after {start}"
        zone = next(word for word in command if word.startswith("<"))
        lines = [
            line
            for line in self.world.log_in(zone).splitlines(keepends=True)
            if lsn_number(start) <= lsn_number(line.partition("lsn: ")[2].partition(",")[0]) < lsn_number(end)
        ]
        return "".join([*lines, "status: 0\n"])


def _reader(world: World, segments: int, lasts: int) -> Reader:
    """Archive segments with a commit each, the last one after the target; let a reader last for so many."""
    for number in range(2, 2 + segments):
        world.archive(number)
    last = 1 + segments
    commits = [
        (700 + n, shown_lsn(n * SEGMENT_BYTES + 0x200), (3 if n == last else 1) * SECOND) for n in range(2, last + 1)
    ]
    world.commits(*commits)
    made = Reader(world, lasts)
    world.found.answer = made.answer
    return made


def _captured(world: World) -> Capture:
    """Bring WAL and capture, again and again as the worker does."""
    source, base = world.source(2 * SECOND), past.base_of_snapshot(world.backend.place, SHARED.service_id, "snapshot01")
    for _ in range(500):
        try:
            if past.bring(world.backend.place, FORK, source, base, -1.0) is None:
                captured = world.backend.restore.capture(FORK, source)
                assert captured is not None
                return captured
        except Unavailable:
            continue
    raise AssertionError("it goes on for ever")


def test_wal_is_read_in_stretches_of_which_few_segments_stay(world: World) -> None:
    reader = _reader(world, 30, lasts=1000)
    facts = _captured(world).facts
    assert (facts["cut"]["last_included"]["xid"], facts["cut"]["first_excluded"]["xid"]) == (730, 731)
    assert facts["left_at"] == "0/1E000228"
    assert facts["segments"] == [Segment(1, 2).name, Segment(1, 30).name], "what is noted does not grow with the WAL"
    assert reader.most <= 5
    assert len(reader.runs) == 8
    assert ("pods", _POD) not in world.found.objects


def test_a_search_goes_on_where_a_reader_has_ended(world: World) -> None:
    reader = _reader(world, 10, lasts=6)
    facts = _captured(world).facts
    assert (facts["cut"]["last_included"]["xid"], facts["cut"]["first_excluded"]["xid"]) == (710, 711)
    starts = [lsn_number(start) for start, _ in reader.runs]
    assert starts == sorted(set(starts)), "nothing is read again"


def test_readers_that_end_again_and_again_make_the_fork_fail(world: World) -> None:
    _reader(world, 30, lasts=2)
    with pytest.raises(Failed, match="10 pods that read WAL") as failed:
        _captured(world)
    assert failed.value.code == "WAL_READER_ENDED"
    assert f"{_POD} is Failed" in failed.value.details


def test_what_an_earlier_timeline_has_behind_a_later_one_is_not_of_the_line() -> None:
    known = [Segment(1, 2), Segment(1, 3), Segment(1, 4), Segment(2, 3)]
    assert archiving.newest_by_number(known) == {2: Segment(1, 2), 3: Segment(2, 3)}


def _page(rest: int) -> bytes:
    """Return a segment of WAL whose first page goes on with so many bytes of a record."""
    header = struct.pack("<HHIQIxxxx", 0xD116, 3, 1, 2 * SEGMENT_BYTES, rest)
    return header.ljust(SEGMENT_BYTES, b"\0")


@pytest.mark.parametrize(
    ("content", "begins"),
    [
        (_page(0), True),
        (_page(16), False),
        (_page(1000), True),
        (_page(16_728_040), True),
        (_page(16_728_041), False),
        (b"short", False),
    ],
)
def test_in_a_segment_that_is_all_of_one_record_or_ends_a_switch_none_begins(content: bytes, begins: bool) -> None:
    assert begins_record(content) is begins


def test_reading_goes_on_with_a_record_that_may_have_begun_before_the_last_segment() -> None:
    first = 2 * SEGMENT_BYTES + 0x100
    found = CutSearch.begin(datetime.now(UTC), None)
    reading = Reading(until=first, start=first, base_lsn="0/2000100", found=found)
    for number, begun, start in ((2, {2}, first), (3, {2, 3}, first), (4, {2, 3}, first), (5, {2, 3, 5}, 3)):
        reading.until = (number + 1) * SEGMENT_BYTES
        reading.take([], begun)
        assert reading.start == (start if start > 100 else start * SEGMENT_BYTES)


def test_a_record_that_is_longer_than_what_was_read_is_no_damage(world: World) -> None:
    reader = _reader(world, 12, lasts=1000)
    reader.longest = Segment(1, 10).end
    facts = _captured(world).facts
    assert facts["cut"]["first_excluded"]["xid"] == 713
    assert [end for _, end in reader.runs] == ["0/6000000", "0/A000000", "0/E000000"]


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("printed", ["status: 137\nKilled\n", "status: 127\npg_waldump: not found\n", "rmgr: Trans"])
def test_a_program_that_did_not_end_by_itself_says_nothing_about_the_wal(
    world: World, printed: str, segments: int
) -> None:
    """Of the last segment nothing would be missed: WAL that ends there early is blank behind its last record."""
    reader = _reader(world, segments, lasts=1000)
    reader.broken = [printed]
    source, base = world.source(2 * SECOND), past.base_of_snapshot(world.backend.place, SHARED.service_id, "snapshot01")
    with pytest.raises(Unavailable) as failed:
        past.bring(world.backend.place, FORK, source, base, 10.0)
    assert failed.value.code == "WAL_NOT_READ"
    assert _captured(world).facts["cut"]["first_excluded"]["xid"] == 701 + segments


def test_wal_that_cannot_be_read_at_all_is_damaged(world: World) -> None:
    _reader(world, 12, lasts=1000).longest = Segment(1, 20).end
    with pytest.raises(Failed) as failed:
        _captured(world)
    assert failed.value.code == "WAL_DAMAGED"
