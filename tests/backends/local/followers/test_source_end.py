"""What the log of a standby must show before the last shutdown of its source counts as its end."""

import json
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.ports import free_port
from ramet.backends.local.followers import lag, source_end
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.probe import Presence
from ramet.backends.local.server.read_only_storage import NOT_RECEIVED
from ramet.backends.local.sql import connections
from ramet.errors import Failed
from ramet.model.upstream import Upstream
from tests.backends.kubernetes.servers import UPSTREAM

STARTS = ("startup", "entering standby mode")
STREAMS = ("walreceiver", "started streaming WAL from primary at 0/3000000 on timeline 1")
ENDED = ("walreceiver", "replication terminated by primary server")
REFUSES = ("walreceiver", 'could not connect to the primary server: FATAL:  password authentication failed for "x"')
AWAY = ("walreceiver", "could not connect to the primary server: connection to server failed: Connection refused")
RESTORES = ("startup", 'restored log file "000000010000000000000003" from archive')
RECEIVES_NOTHING = ("postmaster", 'parameter "primary_conninfo" changed to ""')
RESTARTPOINT = ("checkpointer", "restartpoint starting: time")
FORGED = ("client backend", STREAMS[1])
ANSWERS = (
    'connect to the primary server: FATAL:  role "x" is not permitted to log in',
    'connect to the primary server: FATAL:  role "x" does not exist',
    "connect to the primary server: FATAL:  sorry, too many clients already",
    "connect to the primary server: server does not support SSL, but SSL was required",
    "start WAL streaming: ERROR:  requested starting point 0/3000060 is ahead of the WAL flush position",
    "receive data from WAL stream: ERROR:  requested WAL segment 000000010000000000000003 has already been removed",
)
MORE_THAN_A_TAIL = 1000
Line = tuple[str, str]
UNTIL = "0/3000060"
LOGGED_AT = "2020-11-29 18:00:00.000 UTC"
BEFORE, AFTER = datetime(2020, 11, 29, 17, tzinfo=UTC), datetime(2020, 11, 29, 19, tzinfo=UTC)


@pytest.fixture
def paths(tmp_path: Path) -> ServicePaths:
    (tmp_path / "log").mkdir()
    return ServicePaths(tmp_path, tmp_path / "sockets")


@pytest.fixture
def upstream() -> Upstream:
    """A source at whose address nothing listens."""
    return replace(UPSTREAM, host="127.0.0.1", port=free_port())


def write(paths: ServicePaths, *files: list[Line]) -> None:
    for number, lines in enumerate(files):
        entries = [
            {"timestamp": LOGGED_AT, "message": message, "backend_type": process, "detail": "x" * 200}
            for process, message in lines
        ]
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (paths.log / f"server-{number}.json").write_text(text)


def code_of(paths: ServicePaths, upstream: Upstream, since: datetime = BEFORE) -> str | None:
    """Return the code of the refusal to take the last shutdown for the end; None: it is taken for that."""
    try:
        assert source_end.returning(paths, upstream, UNTIL, Presence.SILENT, since) is None
    except Failed as failed:
        return failed.code
    return None


@pytest.mark.parametrize(
    "files",
    [
        [[STREAMS, ENDED, *[AWAY] * MORE_THAN_A_TAIL]],
        [[STREAMS, ENDED, AWAY], [AWAY] * MORE_THAN_A_TAIL, [AWAY]],
        [[STREAMS, REFUSES], [REFUSES, STREAMS, *[RESTARTPOINT] * MORE_THAN_A_TAIL]],
        [[REFUSES], [RESTARTPOINT, ENDED, AWAY]],
        [[STREAMS, RECEIVES_NOTHING, STARTS, STREAMS, AWAY]],
    ],
)
def test_a_source_that_was_silent_since_it_sent_the_last_wal_has_not_returned(
    paths: ServicePaths, upstream: Upstream, files: list[list[Line]]
) -> None:
    write(paths, *files)
    assert code_of(paths, upstream) is None


@pytest.mark.parametrize(
    "files",
    [
        [[STREAMS, ENDED, REFUSES, *[AWAY] * MORE_THAN_A_TAIL]],
        [[STREAMS, ENDED, REFUSES], [AWAY] * MORE_THAN_A_TAIL, [AWAY]],
        [[STREAMS, REFUSES, FORGED, AWAY]],
        [[STREAMS, REFUSES, STARTS, AWAY]],
        *([[STREAMS, ("walreceiver", f"could not {answer}"), AWAY]] for answer in ANSWERS),
    ],
)
def test_a_source_that_has_answered_since_has_returned_however_long_ago_that_was(
    paths: ServicePaths, upstream: Upstream, files: list[list[Line]]
) -> None:
    write(paths, *files)
    assert code_of(paths, upstream) == "SOURCE_RETURNED"


@pytest.mark.parametrize(
    "files",
    [
        [[STREAMS, ENDED, STARTS, AWAY]],
        [[STREAMS, ENDED, STARTS, RESTORES, AWAY]],
        [[STREAMS, RECEIVES_NOTHING, RECEIVES_NOTHING, AWAY]],
        [[AWAY]],
        [],
    ],
)
def test_where_the_log_does_not_show_all_of_the_time_since_the_end_is_unknown(
    paths: ServicePaths, upstream: Upstream, files: list[list[Line]]
) -> None:
    write(paths, *files)
    assert code_of(paths, upstream) == "SOURCE_END_UNKNOWN"


def test_the_end_is_unknown_where_the_source_is_watched_since_the_shutdown_only(
    paths: ServicePaths, upstream: Upstream
) -> None:
    write(paths, [STREAMS, ENDED, AWAY])
    assert code_of(paths, upstream, AFTER) == "SOURCE_END_UNKNOWN"


@pytest.mark.parametrize("runs_while", ["waiting", "replaying"])
def test_a_source_is_watched_until_it_is_seen_running(
    paths: ServicePaths, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, runs_while: str
) -> None:
    write(paths, [STREAMS, ENDED, AWAY])
    watch = source_end.Watch()
    watch.end(paths.service_id, BEFORE)
    stand_in(monkeypatch)
    assert left(paths, upstream, watch=watch) is None
    with monkeypatch.context() as patched:
        patched.setattr(source_end, "presence", lambda *_: Presence.RUNS)
        stand_in(patched, received="0/4000000" if runs_while == "replaying" else UNTIL)
        assert left(paths, upstream, watch=watch) is not None
    with pytest.raises(Failed, match="may have run"):
        left(paths, upstream, watch=watch)


def test_a_source_is_not_watched_where_a_second_has_passed_without_a_look(
    paths: ServicePaths, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(paths, [STREAMS, ENDED, AWAY])
    watch = source_end.Watch()
    watch.end(paths.service_id, BEFORE)
    later = time.monotonic() + 1.1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    stand_in(monkeypatch)
    with pytest.raises(Failed, match="may have run"):
        left(paths, upstream, watch=watch)


@pytest.mark.parametrize(("found", "text"), [(Presence.RUNS, "is running"), (Presence.CHANGES, "starting or shutting")])
def test_a_source_that_was_started_just_now_is_waited_for(
    paths: ServicePaths, upstream: Upstream, found: Presence, text: str
) -> None:
    write(paths, [STREAMS, ENDED, AWAY])
    assert text in str(source_end.returning(paths, upstream, UNTIL, found, BEFORE))


def test_the_reason_is_not_that_of_an_earlier_file_when_the_newest_is_longer_than_what_is_read(
    paths: ServicePaths, upstream: Upstream
) -> None:
    write(paths, [REFUSES], [STREAMS, *[RESTARTPOINT] * MORE_THAN_A_TAIL])
    assert "refuses" not in str(lag.reason(paths, upstream).problem)


def test_the_reason_is_known_where_the_source_says_it_in_another_encoding(
    paths: ServicePaths, upstream: Upstream
) -> None:
    write(paths, [STREAMS, ("walreceiver", REFUSES[1].replace("x", "jurgen"))])
    file = paths.log / "server-0.json"
    file.write_bytes(file.read_bytes().replace(b"jurgen", b"j\xfcrgen"))
    assert "refuses the role" in str(lag.reason(paths, upstream).problem)


@pytest.mark.parametrize(
    ("lsn", "drain", "takes_place", "is_refused"),
    [
        (None, True, False, True),
        ("0/3000000", True, False, True),
        (None, True, True, True),
        ("0/3000000", True, True, False),
        ("0/3000000", False, False, False),
    ],
)
def test_only_the_lsn_of_a_move_proves_the_end_of_a_source_that_has_returned(
    paths: ServicePaths, upstream: Upstream, monkeypatch: pytest.MonkeyPatch,
    lsn: str | None, drain: bool, takes_place: bool, is_refused: bool,
) -> None:  # fmt: skip
    write(paths, [STREAMS, ENDED, REFUSES, AWAY])
    stand_in(monkeypatch)
    if is_refused:
        with pytest.raises(Failed, match="was started again"):
            left(paths, upstream, lsn, drain=drain, takes_place=takes_place)
    else:
        assert left(paths, upstream, lsn, drain=drain, takes_place=takes_place) is None


@pytest.mark.parametrize("is_shut_down", [False, True])
def test_a_promotion_says_that_nothing_is_received_on_nearly_full_storage(
    paths: ServicePaths, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, is_shut_down: bool
) -> None:
    write(paths, [STREAMS, ENDED, AWAY])
    stand_in(monkeypatch)
    monkeypatch.setattr(source_end, "receives_nothing", lambda _: True)
    assert left(paths, upstream, ends_with_shutdown=lambda _: is_shut_down) == NOT_RECEIVED


def left(paths: ServicePaths, upstream: Upstream, lsn: str | None = None, **given: Any) -> str | None:
    """Return what a promotion waits for that awaits the source's shutdown, which was received."""
    usual: dict[str, Any] = {
        "drain": True, "takes_place": False, "ends_with_shutdown": lambda _: True, "watch": source_end.Watch(),
    }  # fmt: skip
    return source_end.left(paths, upstream, lsn, **usual | given)


def stand_in(monkeypatch: pytest.MonkeyPatch, received: str = UNTIL) -> None:
    """Let a standby have replayed all until an LSN."""

    def progress(*_: Any) -> tuple[Any, ...]:
        return True, UNTIL, received, False

    monkeypatch.setattr(connections, "connect", lambda _: nullcontext())
    monkeypatch.setattr(source_end, "row", progress)
