"""The threads of HTTP: enough of them, and never all waiting for databases elsewhere."""

import asyncio
import functools
import inspect
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import pytest
from sqlalchemy.pool import QueuePool

from harness.waiting import BOUND_SECONDS, eventually
from ramet import acting
from ramet.acting import Act, Actor
from ramet.api.application import openapi_json
from ramet.api.threads import THREADS, Threads
from ramet.control.slots import Slots
from ramet.endpoints import BASE_PATH
from ramet.errors import Unavailable
from ramet.store.silence import bounded_engine
from ramet.workbench.running import Desk
from ramet.workbench.sessions import Workbench
from tests.api.test_imports import BODY
from tests.api.world import World


def test_requests_run_in_so_many_threads_at_a_time_and_most_of_them_wait_for_no_database(world: World) -> None:
    everybody = threading.Barrier(THREADS)

    async def arrive(project_id: str) -> None:
        with acting.acting(_act_of(project_id)):
            await asyncio.to_thread(everybody.wait, BOUND_SECONDS)

    async def meet() -> None:
        await asyncio.gather(*(arrive(f"project-{number}") for number in range(THREADS)))

    with world.client.portal() as portal:
        portal.call(meet)
    for engine in (world.store.engine, bounded_engine("postgresql+psycopg://elsewhere.example")):
        assert isinstance(engine.pool, QueuePool)
        assert engine.pool.size() + engine.pool._max_overflow > THREADS
    assert world.plane.examinations.most + Workbench().slots.most <= THREADS // 2
    assert Desk().slots.most <= THREADS // 4  # as many may cancel


def _act_of(project_id: str) -> Act:
    return Act(Actor("key", "RK"), project_id=project_id)


def test_a_project_whose_database_does_not_answer_holds_up_no_other_and_none_of_its_requests_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, other, servers = world.ready(), world.new_tenant("other"), world.backend.servers
    setting, may_answer, waiting = servers.set_password, threading.Event(), threading.Semaphore(0)

    def wait(*given: Any) -> None:
        waiting.release()
        assert may_answer.wait(BOUND_SECONDS)
        setting(*given)

    monkeypatch.setattr(servers, "set_password", wait)
    path, body = world.path(shop["service_id"], "updatePassword"), {"password": "a-new-and-long-password"}
    with ThreadPoolExecutor(THREADS + 2) as clients:
        sent = [clients.submit(world.post, path, body) for _ in range(THREADS + 1)]
        try:
            for _ in range(THREADS // 2):
                assert waiting.acquire(timeout=BOUND_SECONDS)
            listed = world.services_path.replace(world.tenant.project.id, other.project.id)
            made = clients.submit(world.client.post, listed, json={"name": "mine"}, auth=other.credentials)
            assert made.result(BOUND_SECONDS).status_code == 202
            assert world.client.get("/readyz").status_code == 200
            assert world.look(shop)["status"] == "READY"
            assert not waiting.acquire(blocking=False)
        finally:
            may_answer.set()
    assert {done.result().status_code for done in sent} == {204}


def test_projects_take_turns_and_too_many_who_wait_are_refused() -> None:
    threads, may_end, order = Threads(1, Slots(7)), threading.Event(), list[str]()
    submit = partial(_submit, threads)
    first = submit("first", partial(may_end.wait, BOUND_SECONDS))
    waiting = [submit("first", partial(order.append, f"first {number}")) for number in range(4)]
    with pytest.raises(Unavailable) as refused:
        submit("first", may_end.set)
    assert refused.value.code == "TOO_MANY_WAITING"
    assert waiting[1].cancel()
    waiting.append(submit("other", partial(order.append, "other")))
    may_end.set()
    for done in (first, waiting[0], *waiting[2:]):
        done.result(BOUND_SECONDS)
    threads.shutdown()
    assert order == ["first 0", "other", "first 2", "first 3"]


def test_no_call_that_waits_is_lost_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, first_may_end, may_end = Threads(3, Slots(7)), threading.Event(), threading.Event()
    calls: list[tuple[str, Callable[[float], object]]] = [
        ("one", first_may_end.wait),
        ("other", may_end.wait),
        ("other", int),
        ("one", int),
    ]
    sent = [_submit(threads, project_id, partial(call, BOUND_SECONDS)) for project_id, call in calls]
    with monkeypatch.context() as patch:
        failed = _let_no_thread_start(patch)
        first_may_end.set()
        for done in (sent[0], *sent[2:]):
            done.result(BOUND_SECONDS)
    may_end.set()
    threads.shutdown()
    assert len(failed) == 1


def test_a_call_that_is_refused_is_not_made_later_where_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, called = Threads(4, Slots(7)), list[str]()
    with monkeypatch.context() as patch:
        _let_no_thread_start(patch)
        with pytest.raises(RuntimeError):
            threads.submit(partial(called.append, "first"))
    threads.submit(partial(called.append, "second")).result(BOUND_SECONDS)
    threads.shutdown()
    assert called == ["second"]


def test_a_call_that_is_refused_takes_no_place_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(4, Slots(7))
    _refuse(threads, 5, monkeypatch)
    assert threads.submit(int).result(BOUND_SECONDS) == 0
    threads.shutdown()
    assert threads._free.taken() == 0


def test_calls_share_no_thread_after_those_that_were_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, both = Threads(4, Slots(7)), threading.Barrier(2)
    _refuse(threads, 5, monkeypatch)
    threads.submit(int).result(BOUND_SECONDS)
    for done in [threads.submit(both.wait, BOUND_SECONDS) for _ in range(2)]:
        done.result(BOUND_SECONDS)
    threads.shutdown()


def test_idle_threads_serve_after_calls_were_refused_while_no_other_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, both = Threads(4, Slots(7)), threading.Barrier(2)
    _refuse(threads, 1, monkeypatch)
    for done in [threads.submit(both.wait, BOUND_SECONDS) for _ in range(2)]:
        done.result(BOUND_SECONDS)
    with monkeypatch.context() as patch:
        _let_no_thread_start(patch)
        for _ in range(20):
            eventually(lambda: threads._free.taken() == 0)
            for done in [threads.submit(both.wait, BOUND_SECONDS) for _ in range(2)]:
                done.result(BOUND_SECONDS)
    threads.shutdown()


def test_a_call_for_which_no_thread_could_be_started_gets_one_with_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, first_may_end, may_end = Threads(6, Slots(7)), threading.Event(), threading.Event()
    wait, meet = partial(may_end.wait, BOUND_SECONDS), partial(threading.Barrier(2).wait, BOUND_SECONDS)
    sent = [_submit(threads, "one", partial(first_may_end.wait, BOUND_SECONDS))]
    sent += [_submit(threads, project_id, wait) for project_id in ("one", "other", "other", "other")]
    sent.append(_submit(threads, "one", meet))
    assert threads._free.taken() == 4
    with monkeypatch.context() as patch:
        failed = _let_no_thread_start(patch)
        first_may_end.set()
        eventually(lambda: len(failed) == 1)
    sent.append(_submit(threads, "third", meet))
    sent[-1].result(BOUND_SECONDS)
    may_end.set()
    for done in sent:
        done.result(BOUND_SECONDS)
    threads.shutdown()


def _submit(threads: Threads, project_id: str, call: Callable[[], object]) -> Future[object]:
    with acting.acting(_act_of(project_id)):
        return threads.submit(call)


def _refuse(threads: Threads, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        _let_no_thread_start(patch)
        for _ in range(calls):
            with pytest.raises(RuntimeError, match="new thread"):
                threads.submit(int)


def _let_no_thread_start(patch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Let all starts fail, and return the list to which each adds its thread."""
    failed = list[threading.Thread]()

    def fail(thread: threading.Thread) -> None:
        failed.append(thread)
        raise RuntimeError("can't start new thread")

    patch.setattr(threading.Thread, "start", fail)
    return failed


def test_what_only_reads_the_store_takes_no_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shop, submit, called = world.ready(), ThreadPoolExecutor.submit, list[object]()

    def note(own: ThreadPoolExecutor, function: Callable[..., Any], /, *given: Any) -> Future[Any]:
        called.append(function)
        return submit(own, function, *given)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", note)
    for path in (world.services_path, world.path(shop["service_id"]), world.path(shop["service_id"], "snapshots")):
        assert world.get(path).status_code == 200
    assert called == []


def test_no_request_that_reads_asks_the_backend_on_the_event_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, called = world.ready(cpu_millis="1000", memory_gbs="4"), set[str]()
    fork, reader = world.fork(shop), {"name": "reader", "nodes": 1, "cpu_millis": 500, "memory_gbs": 2}
    replica_set = world.post(world.path(shop["service_id"], "replicaSets"), reader).json()
    world.work()
    for kind in {type(part) for part in vars(world.backend).values() if type(part).__module__.startswith("ramet.")}:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                monkeypatch.setattr(kind, name, _noting(f"{kind.__name__}.{name}", method, called))
    for service in (shop, fork):
        known = {"project_id": world.tenant.project.id, "service_id": service["service_id"]}
        for path in _paths_that_are_read(known | {"replica_set_id": replica_set["id"]}):
            answer = world.get(BASE_PATH + path)
            assert answer.status_code < 500, answer.text
    assert "MemoryReplication.slots in a thread" in called
    assert {one for one in called if one.endswith("loop")} <= {"MemoryArchive.url on the loop"}  # a setting


def _noting(name: str, method: Callable[..., Any], called: set[str]) -> Callable[..., Any]:
    @functools.wraps(method)
    def noting(*given: Any, **named: Any) -> Any:
        try:
            asyncio.get_running_loop()
            called.add(f"{name} on the loop")
        except RuntimeError:
            called.add(f"{name} in a thread")
        return method(*given, **named)

    return noting


def _paths_that_are_read(known: dict[str, str]) -> list[str]:
    paths = msgspec.json.decode(openapi_json("1"))["paths"]
    read = [path for path, methods in paths.items() if "get" in methods]
    return [re.sub(r"\{(\w+)\}", lambda at: known.get(at[1], "a000000001"), path) for path in read]


@pytest.mark.parametrize(
    ("verb", "backend", "method"),
    [("imports", "sources", {}), ("followers", "followers", {}), ("followers", "sources", {"method": "LOGICAL"})],
)
def test_a_project_examines_a_few_sources_at_a_time_and_all_others_are_served(
    world: World, monkeypatch: pytest.MonkeyPatch, verb: str, backend: str, method: dict[str, str]
) -> None:
    silent = getattr(world.backend, backend)
    examine, may_answer = silent.examine, threading.Event()

    def wait(*given: Any) -> Any:
        assert may_answer.wait(BOUND_SECONDS)
        return examine(*given)

    monkeypatch.setattr(silent, "examine", wait)
    path = world.services_path.removesuffix("services") + verb

    def send(number: int) -> tuple[int, str]:
        answer = world.client.post(
            path, auth=world.tenant.credentials, json={**BODY, **method, "name": f"copy-{number}"}
        )
        return answer.status_code, answer.json().get("code", "")

    with ThreadPoolExecutor(10) as clients:
        sent = [clients.submit(send, number) for number in range(10)]
        try:
            answers = [done.result() for done in islice(as_completed(sent, BOUND_SECONDS), 7)]
            assert world.client.get("/readyz").status_code == 200
        finally:
            may_answer.set()
    assert answers == [(503, "TOO_MANY_EXAMINATIONS")] * 7
    assert sorted(done.result()[0] for done in sent) == [202] * 3 + [503] * 7
