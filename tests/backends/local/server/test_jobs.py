"""Work on a server in the background: begun once on the host, bounded, and reported to every caller."""

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from harness.waiting import eventually
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.jobs import Jobs
from ramet.errors import Failed, Unavailable, Unseen

PATIENCE_SECONDS = 120.0


class Work:
    """A job that runs until it may end, and counts how often it was started."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = threading.Event()

    def __call__(self) -> str:
        self.begun += 1
        self.may_end.wait(PATIENCE_SECONDS)
        return "done"


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    made.may_end.set()


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], ServicePaths]:
    def paths(service_id: str) -> ServicePaths:
        (tmp_path / f"sockets-{service_id}").mkdir(exist_ok=True)
        return ServicePaths(tmp_path / service_id, tmp_path / f"sockets-{service_id}")

    return paths


Place = Callable[[str], ServicePaths]


@pytest.fixture
def workers(tmp_path: Path) -> tuple[Jobs, Jobs]:
    """Two control planes on one host, which let one thing be done at a time."""
    return Jobs(tmp_path / "turns", 1), Jobs(tmp_path / "turns", 1)


def test_a_job_runs_once_and_its_result_is_returned_once(workers: tuple[Jobs, Jobs], place: Place, work: Work) -> None:
    one, paths = workers[0], place("a")
    assert one.run(paths, "read", work, 0) is None
    assert one.run(paths, "read", work, 0) is None
    work.may_end.set()
    assert one.run(paths, "read", work, PATIENCE_SECONDS) == "done"
    assert work.begun == 1
    # The thread of the first one may still be releasing its lock.
    eventually(lambda: one.run(paths, "read", work, PATIENCE_SECONDS) == "done")
    assert work.begun == 2


def test_another_process_does_not_repeat_a_job_and_gets_its_result(
    workers: tuple[Jobs, Jobs], place: Place, work: Work
) -> None:
    one, other = workers
    assert one.run(place("a"), "read", work, 0) is None
    assert other.run(place("a"), "read", work, 0) is None
    work.may_end.set()
    eventually(lambda: other.run(place("a"), "read", work, 0.01) == "done")
    assert work.begun == 1


def test_a_job_begins_though_a_restart_of_the_host_has_removed_the_directory_of_the_sockets(
    tmp_path: Path, place: Place
) -> None:
    jobs, paths = Jobs(tmp_path / "turns", 1, lambda of: of.sockets.mkdir(exist_ok=True)), place("a")
    paths.root.mkdir()
    paths.sockets.rmdir()
    assert jobs.run(paths, "read", lambda: "done", PATIENCE_SECONDS) == "done"


def test_no_job_begins_for_a_service_that_is_removed(tmp_path: Path, place: Place, work: Work) -> None:
    jobs, paths = Jobs(tmp_path / "turns", 1, lambda of: of.sockets.mkdir(exist_ok=True)), place("a")
    paths.sockets.rmdir()
    assert jobs.run(paths, "read", work, 0) is None
    assert (work.begun, paths.sockets.exists()) == (0, False)


def test_jobs_above_the_limit_of_the_host_wait_for_a_slot(workers: tuple[Jobs, Jobs], place: Place, work: Work) -> None:
    one, other = workers
    later = Work()
    later.may_end.set()
    assert one.run(place("a"), "read", work, 0) is None
    for jobs in workers:
        assert jobs.run(place("b"), "read", later, 0) is None
    assert later.begun == 0
    work.may_end.set()
    eventually(lambda: other.run(place("b"), "read", later, 0.01) == "done")


def test_a_job_for_which_no_thread_can_be_started_keeps_no_slot(
    workers: tuple[Jobs, Jobs], place: Place, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert workers[0].run(place("a"), "read", work, 0) is None
    work.may_end.set()
    assert workers[1].run(place("b"), "read", work, PATIENCE_SECONDS) == "done"
    assert workers[0].run(place("a"), "read", work, PATIENCE_SECONDS) == "done"


def test_a_failed_job_returns_its_error(workers: tuple[Jobs, Jobs], place: Place) -> None:
    def fail() -> str:
        raise OSError("no luck")

    assert workers[0].run(place("a"), "read", fail, PATIENCE_SECONDS) == "read failed: no luck"


def test_a_job_of_a_stopped_service_has_no_result(workers: tuple[Jobs, Jobs], place: Place, work: Work) -> None:
    one, other = workers
    assert one.run(place("a"), "read", work, 0) is None
    one.end(place("a"))
    work.may_end.set()
    again = Work()
    again.may_end.set()
    eventually(lambda: other.run(place("a"), "read", again, 0.01) == "done")
    assert again.begun == 1


def test_the_facts_or_the_error_of_a_job_reach_who_asks(workers: tuple[Jobs, Jobs], place: Place) -> None:
    def refuse() -> None:
        raise Unavailable("SERVER_KILLED", "It was killed", "Try again.")

    def look_away() -> None:
        raise Unseen("NOT_SEEN", "No file is free")

    def refuse_by_postgresql() -> None:
        raise psycopg.errors.UndefinedTable("no such table")

    def fail() -> None:
        raise KeyError("an unexpected name")

    def ask(name: str, act: Callable[[], object]) -> object:
        return workers[0].result_of(place("a"), name, act, PATIENCE_SECONDS, code="LOAD_FAILED")

    assert ask("load", lambda: {"tables": 3}) == {"tables": 3}
    with pytest.raises(Unavailable, match="It was killed") as refused:
        ask("refuse", refuse)
    assert (refused.value.code, refused.value.details) == ("SERVER_KILLED", "Try again.")
    with pytest.raises(Unseen, match="No file is free"):
        ask("look", look_away)
    for name, act, words in (("sql", refuse_by_postgresql, "no such table"), ("fail", fail, "an unexpected name")):
        with pytest.raises(Failed, match=words) as failed:
            ask(name, act)
        assert failed.value.code == "LOAD_FAILED"


def test_facts_and_errors_arrive_whole_in_any_language_and_texts_as_far_as_they_are_shown(
    workers: tuple[Jobs, Jobs], place: Place
) -> None:
    one, paths = workers[0], place("a")
    problems = ["нет прав" * 25, "権限がない" * 40] * 5
    assert one.result_of(paths, "load", lambda: problems, PATIENCE_SECONDS, code="LOAD_FAILED") == problems

    def refuse() -> None:
        raise Failed("DUMP_FAILED", "pg_dump could not read it", "権" * 1500)

    with pytest.raises(Failed) as failed:
        one.result_of(paths, "dump", refuse, PATIENCE_SECONDS, code="LOAD_FAILED")
    assert (failed.value.code, failed.value.details) == ("DUMP_FAILED", "権" * 1500)
    assert one.run(paths, "read", lambda: "x" * 5000, PATIENCE_SECONDS) == "x" * 4000


def test_a_job_under_way_has_no_facts_yet(workers: tuple[Jobs, Jobs], place: Place, work: Work) -> None:
    one, paths = workers[0], place("a")
    assert one.result_of(paths, "load", work, 0, code="LOAD_FAILED") is None
    work.may_end.set()
    assert one.result_of(paths, "load", work, PATIENCE_SECONDS, code="LOAD_FAILED") == "done"


def test_a_kept_result_for_which_nobody_asks_for_long_is_not_worked_for_again(
    workers: tuple[Jobs, Jobs], place: Place, work: Work, tmp_path: Path
) -> None:
    one, paths = workers[0], place("a")

    def ask() -> str | None:
        return one.kept_result(paths, tmp_path / "fetched", work, 0, code="LOAD_FAILED")

    assert ask() is None
    work.may_end.set()
    ended = paths.sockets / "fetched.ended"
    eventually(ended.exists)
    os.utime(ended, (0, 0))
    assert (ask(), work.begun) == ("done", 1)


def test_a_kept_result_is_not_worked_for_beside_a_job_of_that_name(
    workers: tuple[Jobs, Jobs], place: Place, work: Work
) -> None:
    paths = place("a")
    assert workers[0].run(paths, "upgrade", work, 0) is None
    facts = partial(workers[1].kept_result, paths, paths.sockets / "upgraded.json", dict, 0, code="UPGRADE_FAILED")
    assert facts(name="upgrade") is None
    assert not (paths.sockets / "upgraded.json").exists()


def test_no_result_is_read_through_a_link(workers: tuple[Jobs, Jobs], place: Place, work: Work, tmp_path: Path) -> None:
    one, paths, done = workers[0], place("a"), tmp_path / "fetched"
    (tmp_path / "secret").write_text('"a secret"')
    for link in (done, paths.sockets / "fetched.ended", paths.sockets / "read.ended"):
        link.symlink_to(tmp_path / "secret")
    assert one.kept_result(paths, done, work, 0, code="LOAD_FAILED") is None
    assert one.run(paths, "read", work, 0) is None


def test_the_result_of_a_job_that_an_earlier_release_has_begun_is_kept(
    workers: tuple[Jobs, Jobs], place: Place, work: Work, tmp_path: Path
) -> None:
    earlier, one = workers
    paths, done = place("a"), tmp_path / "copied"
    assert earlier.result_of(paths, done.name, work, 0, code="COPY_FAILED") is None
    work.may_end.set()
    eventually(lambda: one.kept_result(paths, done, work, 0, code="COPY_FAILED") == "done")
    assert (done.exists(), work.begun) == (True, 1)
