"""The settings of a first start, and what PostgreSQL's log says about where it stopped and why."""

from contextlib import nullcontext
from datetime import UTC, datetime

import pytest

from ramet.backends.interface.values import Capture
from ramet.backends.local.restore.point_in_time import RECOVER_TO_LSN
from ramet.backends.local.restore.recovery import check_stop_point, explained, recovery_settings
from ramet.backends.local.restore.standby_copy import TO_THE_END
from ramet.backends.local.wal.control_file import ControlData
from ramet.backends.local.wal.segment import Segment
from ramet.errors import Failed

TARGET = datetime(2026, 1, 15, 10, 30, 0, 250_000, tzinfo=UTC)
DIED = Failed("RECOVERY_FAILED", "PostgreSQL could not recover /data")


def test_recovery_stops_behind_a_record_and_never_at_a_time() -> None:
    settings = recovery_settings(Capture(TARGET, {RECOVER_TO_LSN: "0/3000A60"}))
    assert settings["recovery_target_lsn"] == "0/3000A60"
    assert settings["recovery_target_inclusive"] == "on"
    assert settings["recovery_target_timeline"] == "current"
    assert settings["recovery_target_action"] == "promote"
    assert "recovery_target_time" not in settings


def test_without_a_transaction_behind_it_recovery_stops_at_the_end_of_the_base() -> None:
    settings = recovery_settings(Capture(TARGET, {RECOVER_TO_LSN: None}))
    assert settings["recovery_target"] == "immediate"


def test_without_a_target_there_is_nothing_to_set() -> None:
    assert recovery_settings(Capture(None)) == {}


@pytest.mark.parametrize(
    ("messages", "is_right"),
    [
        (["redo done at 0/3000A60 system usage: CPU: elapsed: 0.01 s", "redo done at 0/4000060"], True),
        (["redo done at 0/3000A28 system usage: CPU: elapsed: 0.01 s", "redo done at 0/3000A90"], False),
        (["redo done at 0/3000A60", '1: last_commit = "2026-01-15 10:29:58+00"'], False),
        ([], False),
    ],
)
def test_recovery_to_the_end_that_was_killed_afterwards_is_known_by_its_log(
    messages: list[str], *, is_right: bool
) -> None:
    last = {"xid": 7, "lsn": "0/3000A60", "time": "2026-01-15T10:29:59.000000Z"}
    capture = Capture(None, {"timeline": 1, "end_lsn": "0/4000000", TO_THE_END: True, "cut": {"last_included": last}})
    control = ControlData(7, "shut down", "0/4000060", "0/4000060", Segment(2, 4), 2, 8, TARGET)
    with nullcontext() if is_right else pytest.raises(Failed, match="did not stop"):
        assert check_stop_point(messages, capture, control)["last_commit_time"] == last["time"]


def _capture(target: datetime | None = TARGET) -> Capture:
    return Capture(target, {"timeline": 1})


@pytest.mark.parametrize(
    "complaint",
    [
        "incorrect resource manager data checksum in record at 0/5000108",
        "invalid record length at 0/5000108: wanted 24, got 0",
        "invalid record length at 0/5000108: expected at least 24, got 0",
        "record with incorrect prev-link 0/FFFF at 0/5000108",
        "invalid resource manager ID 77 at 0/5000108",
        "invalid magic number 0000 in WAL segment 000000010000000000000005, LSN 0/5000108, offset 264",
        "unexpected pageaddr 0/2000000 in WAL segment 000000010000000000000005, LSN 0/5000108, offset 264",
        "there is no contrecord flag at 0/5000108",
        "invalid contrecord length 12 (expected 13) at 0/5000108",
        "record length 4000000 at 0/5000108 too long",
        "could not decompress image at 0/5000108, block 0",
    ],
)
def test_damaged_wal_is_named_by_its_segment(complaint: str) -> None:
    messages = [
        "redo starts at 0/2000028",
        complaint,
        "last completed transaction was at log time 2026-01-15 10:29:59.5+00",
        "recovery ended before configured recovery target was reached",
    ]
    error = explained(messages, _capture(), DIED)
    assert error.code == "WAL_DAMAGED"
    assert error.message.startswith("WAL segment 000000010000000000000005 is damaged at 0/5000108")
    assert error.details.endswith("2026-01-15T10:29:59.499999Z.")


def test_the_error_for_a_corrupt_snapshot_names_another_one() -> None:
    messages = ["invalid record length at 0/2000100: wanted 24, got 0", "WAL ends before end of online backup"]
    error = explained(messages, _capture(None), DIED)
    assert error.code == "WAL_DAMAGED"
    assert error.details == "Fork from another snapshot."


def test_prepared_transactions_that_do_not_fit_into_a_smaller_fork_are_explained() -> None:
    messages = [
        "2026-01-15 10:30:00.298 UTC [7] LOG:  recovering prepared transaction 724 from shared memory",
        "2026-01-15 10:30:00.305 UTC [7] FATAL:  out of shared memory",
        "2026-01-15 10:30:00.305 UTC [7] HINT:  You might need to increase max_locks_per_transaction.",
    ]
    error = explained(messages, _capture(), DIED)
    assert error.code == "RECOVERY_FAILED"
    assert error.details.startswith("Fork it with the size of its parent")
    assert "Restores in place and restore drills recover with the smallest size" in error.details


def test_other_causes_of_death_are_left_as_they_are() -> None:
    messages = ["invalid record length at 0/2000100: wanted 24, got 0", "could not create any TCP/IP sockets"]
    assert explained(messages, _capture(), DIED) is DIED
