"""The archive in the cluster when something is wrong: it is away for a while, it has lost WAL; and restore drills."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from harness.kubernetes.contents import apply, kubectl
from harness.kubernetes.layout import API_SERVICE_ADDRESS, NODE_ADDRESS
from harness.kubernetes.objects import find, sql
from harness.kubernetes.settings import archive_settings
from harness.waiting import eventually
from ramet.archive.object_store import open_bucket
from ramet.client import WaitFailed
from ramet.ids import new_id
from ramet.model.procedures import ProcedureName
from ramet.procedures.spec import submit
from ramet.procedures.state import DrillState
from ramet.store.database import Store
from tests.kubernetes.archived import Archived, running_archived
from tests.kubernetes.ramets import objects_of

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
_DRILLED = "SELECT drilled_at, drill_failure, archive_drilled_at, archive_drill_failure FROM service WHERE id = ?"
_WAITING = "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"


@pytest.fixture(scope="module")
def archived() -> Iterator[Archived]:
    with running_archived() as found:
        yield found


@contextmanager
def without_store(archived: Archived) -> Iterator[None]:
    """Let the pods of the parent reach the API server and no S3 server for a while."""
    allowed = [{"to": [{"ipBlock": {"cidr": f"{API_SERVICE_ADDRESS}/32"}}]}]
    allowed.append({"to": [{"ipBlock": {"cidr": f"{NODE_ADDRESS}/32"}}], "ports": [{"port": 6443}]})  # type: ignore[dict-item]
    cluster = {"matchLabels": {"cnpg.io/cluster": f"ramet-{archived.parent.service_id}"}}
    metadata = {"name": "away", "namespace": archived.namespace}
    spec = {"podSelector": cluster, "policyTypes": ["Egress"], "egress": allowed}
    apply([{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}])
    try:
        yield
    finally:
        kubectl("delete", "networkpolicy", "away", f"--namespace={archived.namespace}")


def in_parent(archived: Archived, statement: str) -> str:
    """Run a statement as superuser in the parent's pod."""
    return sql(f"ramet-{archived.parent.service_id}-1", archived.namespace, statement, "postgres")


def drilled(archived: Archived, *, off_host: bool) -> Any:
    """Let a drill run to its end, of which nothing may be left; return what is recorded of drills."""
    service_id, drill_id = archived.parent.service_id, new_id()
    before = archived.ramet.rows(_DRILLED, service_id)
    with closing(Store.open(f"sqlite:///{archived.ramet.data}/ramet.db")) as store, store.write() as tx:
        submit(tx, ProcedureName.DRILL, service_id, DrillState(drill_id=drill_id, is_off_host=off_host))
    eventually(lambda: archived.ramet.rows(_DRILLED, service_id) != before, "the drill", 0.5, seconds=400)
    assert objects_of(drill_id, archived.namespace) == []
    return archived.ramet.rows(_DRILLED, service_id)[0]


def test_a_drill_recovers_a_service_from_its_snapshot_and_archived_wal(archived: Archived) -> None:
    at, failure, *_ = drilled(archived, off_host=False)
    assert at is not None
    assert failure is None


def test_a_store_that_was_away_has_everything_again_and_a_drill_recovers_from_it_alone(archived: Archived) -> None:
    with without_store(archived):
        for _ in range(3):
            archived.ledger.await_rows(20)
            in_parent(archived, "SELECT pg_switch_wal()")
        eventually(lambda: int(in_parent(archived, _WAITING)) >= 3, "WAL that waits for the store", 0.5)
        archived.ledger.await_rows(20)
    archived.await_archived(archived.parent.service_id)
    eventually(lambda: in_parent(archived, _WAITING) == "0", "the end of what waits", 0.5)
    assert archived.client.restore_window(archived.parent.service_id).gaps == []
    service_id, client = archived.parent.service_id, archived.client
    eventually(lambda: client.get_archive(service_id).base_backup_time is not None, "a base backup", 0.5, seconds=300)
    *_, at, failure = drilled(archived, off_host=True)
    assert at is not None
    assert failure is None


def test_wal_that_was_lost_after_it_was_read_is_said_by_postgresql(
    archived: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in archive_settings(archived.namespace).items():
        monkeypatch.setenv(name, text)
    bucket, prefix = open_bucket(archived.url), f"{archived.parent.service_id}/wals/"
    archived.ledger.await_rows(50)
    committed = archived.committed()
    fork = archived.fork_as_of(committed[sorted(committed)[-20]])
    archived.ledger.await_rows(50)
    cluster = f"ramet-{fork.service_id}"
    eventually(lambda: find("cluster", cluster, archived.namespace) is not None, "the fork's Cluster", 0.2)
    lost = {one.key: bucket.read(one.key) for one in bucket.objects(prefix)}
    bucket.delete(list(lost))
    try:
        with pytest.raises(WaitFailed) as failed:
            archived.client.wait_ready(fork.service_id)
    finally:
        for key, content in lost.items():
            bucket.write(key, content or b"")
    assert "Recovery from the archive failed" in failed.value.details
    assert "recovery ended before configured recovery target was reached" in failed.value.details
    archived.remove(fork)
