"""A service of another Ramet that moves here, over an API server in memory: what is applied, and what is refused."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from harness.waiting import eventually
from ramet.backends.interface.followers import UpstreamFacts
from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.values import Source
from ramet.backends.kubernetes import followers, job_logs, manifests, names
from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.backends.kubernetes.cluster import Place
from ramet.backends.kubernetes.resources import SecretObject
from ramet.backends.kubernetes.traits import Traits
from ramet.backends.local.sql import connections
from ramet.errors import Failed, Invalid, Unavailable
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from tests.backends.kubernetes.api_server import in_cluster
from tests.backends.kubernetes.fake_cluster import FakeCluster
from tests.backends.kubernetes.servers import SHARED, UPSTREAM

NAME = "ramet-abcdefghij"
COPY = replace(SHARED, upstream=UPSTREAM)
FORK = replace(SHARED, service_id="forkfork12", port=15433)


@pytest.fixture
def made() -> Iterator[tuple[FakeCluster, KubernetesBackend]]:
    with in_cluster() as (found, place):
        backend = KubernetesBackend(place, lambda: b"key")
        place.ensure_namespace(COPY)
        at_least = Traits({"max_connections": 100, "max_prepared_transactions": 100})
        place.api.apply(SecretObject, manifests.source_access(COPY.service_id, UPSTREAM, Secret("known"), at_least))
        yield found, backend


def parameters(found: FakeCluster, name: str = NAME) -> dict[str, Any]:
    return dict(found.objects[("clusters", name)]["spec"]["postgresql"]["parameters"])


def is_changed(found: FakeCluster) -> bool:
    return names.CHANGED_ANNOTATION in found.objects[("clusters", NAME)]["metadata"]["annotations"]


def fetched(backend: KubernetesBackend) -> bool:
    return backend.followers.fetch(COPY, 3 << 30, 0.0).facts is not None


def test_a_copy_streams_with_settings_as_large_as_those_of_its_source(
    made: tuple[FakeCluster, KubernetesBackend],
) -> None:
    found, backend = made
    eventually(lambda: fetched(backend))
    spec = found.objects[("clusters", NAME)]["spec"]
    assert spec["replica"] == {"enabled": True, "source": "source"}
    assert spec["postgresql"]["pg_hba"] == ["host all all all reject"]
    assert (parameters(found)["max_connections"], parameters(found)["max_prepared_transactions"]) == ("100", "100")
    assert "known" not in str(spec)


@pytest.mark.parametrize(("limit", "slots"), [(100, "100"), (10, "32")])
def test_a_copy_keeps_the_progress_of_as_many_origins_as_its_source(
    made: tuple[FakeCluster, KubernetesBackend], monkeypatch: pytest.MonkeyPatch, limit: int, slots: str
) -> None:
    """Also of a source before 18, where the slots limit them; there are not fewer than the operator allows."""
    found, backend = made
    session = SimpleNamespace(
        execute=lambda _, names: SimpleNamespace(fetchall=lambda: [(name, limit) for name in names[0]])
    )
    monkeypatch.setattr(followers, "connected", lambda *_: nullcontext((session, "")))
    backend.followers.keep(COPY, backend.sources.seal(Secret("known")))
    eventually(lambda: fetched(backend))
    assert parameters(found)["max_active_replication_origins"] == str(limit)
    assert parameters(found)["max_replication_slots"] == slots


def test_a_large_source_gets_a_large_volume(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    backend.followers.fetch(COPY, 40 << 30, 0.0)
    assert found.objects[("clusters", NAME)]["spec"]["storage"]["size"] == "60Gi"


def test_a_promoted_copy_follows_nothing_and_keeps_its_settings_also_in_forks(
    made: tuple[FakeCluster, KubernetesBackend],
) -> None:
    found, backend = made
    eventually(lambda: fetched(backend))
    backend.place.apply_open(SHARED)
    spec = found.objects[("clusters", NAME)]["spec"]
    assert (set(spec["bootstrap"]), "replica" in spec, "externalClusters" in spec) == ({"initdb"}, False, False)
    assert parameters(found)["max_connections"] == "100"
    found.answer = lambda pod, command, stdin: ("", "no perl here", 127)
    backend.restore.capture(FORK, Source(SHARED))
    assert parameters(found, "ramet-forkfork12")["max_connections"] == "100"
    assert backend.followers.discard(SHARED.service_id) is None
    assert ("secrets", names.source_name(SHARED.service_id)) not in found.objects


@dataclass
class _Server:
    """What a server answers that the operator promotes when its Cluster says so, and restarts after an answer."""

    found: FakeCluster
    is_standby: bool = True
    has_workers: bool = True
    promoted_with_workers: bool | None = None

    def answer(self, pod: str, command: list[str], stdin: str) -> tuple[str, str, int]:
        asked = stdin or str(command)
        if self.is_standby and "replica" not in self.found.objects[("clusters", NAME)]["spec"]:
            self.is_standby, self.promoted_with_workers = False, self.has_workers
        if "archive_mode" in asked:
            return "f" if self.is_standby else "t", "", 0
        if stdin:
            return "|".join("t" if one else "f" for one in (self.is_standby, self.has_workers)), "", 0
        has_workers = self.has_workers
        self.has_workers = parameters(self.found).get("max_logical_replication_workers") != "0"
        return "t" if has_workers == ("<> " in asked) else "f", "", 0


def _refuse(*_: object, **__: object) -> NoReturn:
    raise Unavailable("SERVER_UNREACHABLE", "The platform is not accepted")


@pytest.mark.parametrize("service_type", [ServiceType.TIMESERIESDB, ServiceType.POSTGRES])
@pytest.mark.parametrize("neutralize", [True, False])
def test_workers_of_the_source_do_not_run_from_before_a_promotion_until_it_is_neutralized(
    made: tuple[FakeCluster, KubernetesBackend],
    monkeypatch: pytest.MonkeyPatch,
    service_type: ServiceType,
    *,
    neutralize: bool,
) -> None:
    found, backend = made
    monkeypatch.setattr(Place, "connect", lambda *_: nullcontext())
    eventually(lambda: fetched(backend))
    server = _Server(found)
    found.answer = server.answer
    copy = replace(COPY, service_type=service_type)
    eventually(lambda: backend.followers.promote(copy, 0.4, neutralize=neutralize) is None)
    assert server.promoted_with_workers is not neutralize
    assert server.has_workers is not neutralize
    assert ("max_logical_replication_workers" in parameters(found)) is neutralize
    for _ in range(2):
        backend.followers.start_workers(replace(copy, upstream=None))
    assert server.has_workers
    assert not {"max_logical_replication_workers", "timescaledb.max_background_workers"} & set(parameters(found))


def test_a_promotion_that_failed_after_the_restart_without_workers_lets_the_platform_in_when_it_is_repeated(
    made: tuple[FakeCluster, KubernetesBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator restarts the server between two calls, and has not written the rules for the platform yet."""
    found, backend = made
    eventually(lambda: fetched(backend))
    server = _Server(found)
    found.answer = server.answer
    assert backend.followers.promote(COPY, 0.1, neutralize=True) is not None
    assert not server.has_workers
    monkeypatch.setattr(connections, "connect", _refuse)

    assert not is_changed(found)
    with pytest.raises(Unavailable, match="not accepted"):
        backend.followers.await_end(COPY, None, drain=False)
    assert is_changed(found)


def test_a_server_that_does_not_answer_is_not_changed_to_let_the_platform_in(
    made: tuple[FakeCluster, KubernetesBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, backend = made
    eventually(lambda: fetched(backend))
    found.answer = lambda pod, command, stdin: ("", "the database system is starting up", 2)
    monkeypatch.setattr(connections, "connect", _refuse)
    with pytest.raises(Unavailable):
        backend.followers.await_end(COPY, None, drain=False)
    assert not is_changed(found)


def test_a_copy_that_cannot_be_made_says_why(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    found, backend = made
    backend.followers.fetch(COPY, 0, 0.0)
    found.remove("pods", f"{NAME}-1")
    found.answer = lambda pod, command, stdin: ('{"level":"error","msg":"copy","error":"no room"}', "", 0)
    labels = {names.SERVICE_LABEL: COPY.service_id, names.JOB_LABEL: "pgbasebackup"}
    for number in range(3):
        status = {"phase": "Failed"}
        found.put("pods", {"metadata": {"name": f"{NAME}-1-job-{number}", "labels": labels}, "status": status})

    said: list[str] = []

    def fails() -> bool:
        try:
            backend.followers.fetch(COPY, 0, 0.0)
        except Failed as failed:
            said.append(f"{failed.message}: {failed.details}")
        return bool(said)

    eventually(fails)
    assert said == [f"The copy of {UPSTREAM} failed: copy: no room"]


def test_the_progress_changes_while_a_source_is_copied(
    made: tuple[FakeCluster, KubernetesBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, backend = made
    monkeypatch.setattr(job_logs, "_LOOK_SECONDS", 0.0)
    found.copies_at_once, used = False, ["1000"]
    found.answer = lambda pod, command, stdin: ("" if command == ["log"] else used[-1], "", 0)

    def says(amount: str) -> bool:
        return backend.followers.fetch(COPY, 3 << 30, 0.0).progress.endswith(f"; {amount} are in its volume")

    eventually(lambda: says("1 MB"))
    used.append("3000000")
    assert says("3000 MB")


_REMOVED = "could not receive data from WAL stream: ERROR:  requested WAL segment 0000…A7 has already been removed"
_ANOTHER = "new timeline 2 forked off current database system timeline 1 before current recovery point 0/A7000060"
_BROKEN = [
    "invalid record length at 0/A7000060: expected at least 24, got 0",
    "terminating walreceiver process due to administrator command",
]
_IN_MOVE = "It cannot follow any more: call the move off, and move the service again."


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ([_REMOVED], f"The source has removed WAL that this service did not receive yet ({UPSTREAM}). {_IN_MOVE}"),
        ([_ANOTHER], f"an earlier state than this service has already replayed ({UPSTREAM}). {_IN_MOVE}"),
        (_BROKEN, f"it was set back, or crashed without fsync ({UPSTREAM}). {_IN_MOVE}"),
        ([_REMOVED, "started streaming WAL from primary at 0/A7000000 on timeline 1"], "when the source answers."),
        (None, "when the source answers."),
    ],
)
def test_a_copy_says_by_the_log_of_its_pod_why_nothing_arrives_and_what_helps(
    made: tuple[FakeCluster, KubernetesBackend],
    monkeypatch: pytest.MonkeyPatch,
    said: list[str] | None,
    problem: str,
) -> None:
    found, backend = made
    eventually(lambda: fetched(backend))
    now = datetime.now(UTC)
    replayed = (True, "0/A7000060", now, now, None, False, False)
    rows = cycle([replayed, ("0/A7000060", None, None, False, "not paused", None)])
    session = SimpleNamespace(execute=lambda *_: SimpleNamespace(fetchone=lambda: next(rows)))
    monkeypatch.setattr(connections, "connect", lambda *_, **__: nullcontext(session))
    logged = [
        ("client backend", "could not connect"),
        *(("startup", one) for one in said or ()),
        ("client backend", "x"),
    ]
    records = ({"log_time": "", "backend_type": process, "message": message} for process, message in logged)
    lines = ["no JSON", *(json.dumps({"record": one}) for one in records)]
    found.answer = lambda pod, command, stdin: ("\n".join(lines), "", 0 if said else 403)
    for _ in range(3):
        following = backend.followers.observe(COPY)
        assert following is not None
        assert (following.problem or "").endswith(problem)
        assert not following.needs_copy
    assert sum(path.endswith("/log") for _, path in found.requests) == 1


def test_only_a_service_of_another_ramet_can_be_followed(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    _, backend = made
    with pytest.raises(Invalid, match="no services that follow a database elsewhere"):
        backend.followers.examine(SourceAddress("db.test", 5432, "app", "replicator"), Secret("known"))


@pytest.mark.parametrize(("role", "reserved"), [((True,), ()), ((False,), ("postgres",))])
def test_a_source_whose_tenants_have_the_operators_name_cannot_be_followed(
    made: tuple[FakeCluster, KubernetesBackend],
    monkeypatch: pytest.MonkeyPatch,
    role: tuple[bool],
    reserved: tuple[str, ...],
) -> None:
    _, backend = made
    known: list[tuple[bool] | None] = [role, None]
    session = SimpleNamespace(execute=lambda *_: SimpleNamespace(fetchone=lambda: known.pop(0)))
    facts = UpstreamFacts("18.1", 18, "x86_64", "7712037298637759942", "ramet", 1, {})
    monkeypatch.setattr(followers, "examine", lambda *_: facts)
    monkeypatch.setattr(followers, "connected", lambda *_: nullcontext((session, "")))
    source = SourceAddress("machine.test", 15432, "tsdb", "pg_ramet_mover")
    found, host = backend.followers.examine(source, Secret("known"))
    assert (found.reserved_roles, found.major in host.majors) == (reserved, True)
    with pytest.raises(Invalid, match="moves services to machines only"):
        backend.followers.examine(source, Secret("known"))


def test_a_copy_cannot_be_forked_before_it_has_moved(made: tuple[FakeCluster, KubernetesBackend]) -> None:
    _, backend = made
    with pytest.raises(Invalid, match="cannot be forked here"):
        backend.restore.check_fork(Source(COPY), None)


def test_the_password_of_a_source_is_sealed_for_this_installation(
    made: tuple[FakeCluster, KubernetesBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, backend = made
    sealed = backend.sources.seal(Secret("known"))
    assert "known" not in sealed
    other = KubernetesBackend(backend.place, lambda: b"another key")
    monkeypatch.setattr(followers, "connected", lambda *_: pytest.fail("it was unsealed"))
    with pytest.raises(Failed, match="sealed with another key"):
        other.followers.keep(COPY, sealed)
