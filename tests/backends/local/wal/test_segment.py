"""Segments: their names and places, and files that are not what their names say."""

import struct
from pathlib import Path

import pytest

from ramet.backends.local.wal.segment import (
    PAGE_BYTES,
    SEGMENT_BYTES,
    Segment,
    end_of_records,
    fault_of,
    record_end,
    segment_at,
    segment_before,
    segment_named,
    segments_between,
    segments_in,
    shown_lsn,
)
from ramet.model.snapshot import lsn_number
from tests.backends.local.segments import IDENTIFIER, MAGIC, overwrite, write_segment

SEGMENT = Segment(1, 5)


@pytest.mark.parametrize(
    ("segment", "name"),
    [
        (Segment(1, 1), "000000010000000000000001"),
        (Segment(2, 255), "0000000200000000000000FF"),
        (Segment(2, 256), "000000020000000100000000"),
        (Segment(0xABCDEF01, 0x1234567), "ABCDEF010001234500000067"),
    ],
)
def test_a_segment_name_is_parsed_and_formatted(segment: Segment, name: str) -> None:
    assert segment.name == name
    assert segment_named(name) == segment


@pytest.mark.parametrize(
    "name",
    [
        "00000002.history",
        "000000010000000000000002.00000028.backup",
        "000000010000000000000002.partial",
        "archive_status",
    ],
)
def test_other_files_are_no_segments(name: str) -> None:
    assert segment_named(name) is None


def test_an_lsn_lies_in_the_segment_that_holds_its_byte() -> None:
    assert segment_at(1, "0/2000000") == Segment(1, 2)
    assert segment_before(1, "0/2000000") == Segment(1, 1)
    assert segment_at(3, "1/28") == segment_before(3, "1/28") == Segment(3, 256)


@pytest.mark.parametrize("lsn", ["0/0", "0/2000028", "1A/FFFFFFFF"])
def test_an_lsn_is_shown_as_it_was_read(lsn: str) -> None:
    assert shown_lsn(lsn_number(lsn)) == lsn


def test_segments_between_include_both_ends() -> None:
    assert list(segments_between(Segment(1, 254), Segment(1, 256))) == [
        Segment(1, 254),
        Segment(1, 255),
        Segment(1, 256),
    ]


def test_a_directory_lists_its_segments_in_order(tmp_path: Path) -> None:
    for name in ("000000010000000100000000", "0000000100000000000000FF", "00000002.history"):
        (tmp_path / name).touch()
    assert segments_in(tmp_path) == [Segment(1, 255), Segment(1, 256)]


@pytest.mark.parametrize("pages", [1, 4, SEGMENT_BYTES // PAGE_BYTES])
def test_a_sound_segment_has_no_fault(tmp_path: Path, pages: int) -> None:
    assert fault_of(write_segment(tmp_path, SEGMENT, pages=pages), SEGMENT, IDENTIFIER) is None


def test_a_truncated_segment_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, SEGMENT)
    with path.open("r+b") as file:
        file.truncate(SEGMENT_BYTES - 1)
    assert fault_of(path, SEGMENT, IDENTIFIER) == "has 16777215 bytes instead of 16777216"
    with path.open("r+b") as file:
        file.truncate(0)
    assert fault_of(path, SEGMENT, IDENTIFIER) == "has 0 bytes instead of 16777216"


def test_a_segment_of_another_cluster_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, SEGMENT, identifier=IDENTIFIER + 1)
    assert "belongs to the cluster" in (fault_of(path, SEGMENT, IDENTIFIER) or "")


def test_a_segment_with_the_content_of_another_one_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, Segment(1, 6))
    assert fault_of(path, SEGMENT, IDENTIFIER) == "contains the WAL from 0/6000000, not from 0/5000000"


def test_a_segment_of_a_later_timeline_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, Segment(2, 5))
    assert "timeline 2" in (fault_of(path, SEGMENT, IDENTIFIER) or "")


def test_pages_of_an_earlier_timeline_before_those_of_the_own_one_are_sound(tmp_path: Path) -> None:
    path = write_segment(tmp_path, Segment(1, 5))
    own = write_segment(tmp_path, Segment(2, 5))
    overwrite(own, 0, path.read_bytes()[: 2 * PAGE_BYTES])
    assert fault_of(own, Segment(2, 5), IDENTIFIER) is None


def test_blank_files_are_found(tmp_path: Path) -> None:
    path = tmp_path / SEGMENT.name
    path.write_bytes(bytes(SEGMENT_BYTES))
    assert fault_of(path, SEGMENT, IDENTIFIER) == "does not begin with the header of a WAL segment"


def test_a_page_of_an_older_use_of_the_file_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, SEGMENT)
    older = write_segment(tmp_path, Segment(1, 2))
    overwrite(path, 2 * PAGE_BYTES, older.read_bytes()[2 * PAGE_BYTES : 3 * PAGE_BYTES])
    assert fault_of(path, SEGMENT, IDENTIFIER) == "has at 0/5004000 the page of 0/2004000"
    assert fault_of(path, SEGMENT, IDENTIFIER, until_lsn=SEGMENT.start + 2 * PAGE_BYTES) is None


def test_a_hole_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, SEGMENT)
    overwrite(path, PAGE_BYTES, bytes(PAGE_BYTES))
    assert fault_of(path, SEGMENT, IDENTIFIER) == "has a hole at 0/5002000"


def test_a_segment_that_ends_before_what_is_needed_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, SEGMENT, pages=2)
    assert fault_of(path, SEGMENT, IDENTIFIER, SEGMENT.start + 2 * PAGE_BYTES) is None
    fault = fault_of(path, SEGMENT, IDENTIFIER, SEGMENT.start + 2 * PAGE_BYTES + 1)
    assert fault == "ends at 0/5004000, before 0/5004001"


@pytest.mark.parametrize(
    ("lsn", "length", "end"),
    [
        ("0/2000100", 34, "0/2000128"),
        ("0/2000100", 40, "0/2000128"),
        ("0/2001FF0", 16, "0/2002000"),
        ("0/2001FF0", 17, "0/2002020"),
        ("0/2001FF0", 32, "0/2002028"),
        ("0/2001FF0", 16 + 8168, "0/2004000"),
        ("0/2001FF0", 16 + 8168 + 8, "0/2004020"),
        ("0/2FFFFF0", 32, "0/3000038"),
        ("0/2FFFFF0", 16 + 8152 + 8, "0/3002020"),
    ],
)
def test_a_record_ends_after_its_bytes_and_the_page_headers_within_it(lsn: str, length: int, end: str) -> None:
    """Pages begin with 24 bytes of header, the first one of a segment with 40; records are aligned to 8 bytes."""
    assert shown_lsn(record_end(lsn, length)) == end


def test_wal_that_ends_just_after_the_start_of_a_segment_ends_in_that_segment() -> None:
    assert [segment_before(1, lsn).number for lsn in ("0/3000000", "0/3000001", "0/3000002")] == [2, 3, 3]


def test_segments_are_ordered_by_timeline_and_then_by_number() -> None:
    assert sorted([Segment(2, 1), Segment(1, 9), Segment(1, 2)]) == [Segment(1, 2), Segment(1, 9), Segment(2, 1)]


def test_a_first_page_that_only_continues_a_record_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, SEGMENT)
    overwrite(path, 2, struct.pack("<H", 1))
    assert fault_of(path, SEGMENT, IDENTIFIER) == "does not begin with the header of a WAL segment"


@pytest.mark.parametrize(("segment_bytes", "page_bytes"), [(2 * SEGMENT_BYTES, PAGE_BYTES), (SEGMENT_BYTES, 4096)])
def test_a_segment_of_another_segment_or_page_size_is_found(
    tmp_path: Path, segment_bytes: int, page_bytes: int
) -> None:
    path = write_segment(tmp_path, SEGMENT)
    overwrite(path, 32, struct.pack("<II", segment_bytes, page_bytes))
    fault = f"has segments of {segment_bytes} and pages of {page_bytes} bytes"
    assert fault_of(path, SEGMENT, IDENTIFIER) == fault


def test_a_page_of_another_postgresql_version_is_found(tmp_path: Path) -> None:
    path = write_segment(tmp_path, SEGMENT)
    overwrite(path, 2 * PAGE_BYTES, struct.pack("<H", MAGIC + 1))
    assert fault_of(path, SEGMENT, IDENTIFIER) == "has at 0/5004000 a page of another PostgreSQL version"


@pytest.mark.parametrize(
    ("insert_lsn", "end"),
    [
        ("0/4000028", "0/4000000"),  # behind the header of a segment without records
        ("0/4000030", "0/4000030"),
        ("0/4002018", "0/4002018"),  # behind the header of a page
        ("0/4000000", "0/4000000"),
    ],
)
def test_the_header_of_a_segment_is_no_record(insert_lsn: str, end: str) -> None:
    assert shown_lsn(end_of_records(insert_lsn)) == end
