"""The manifests as pure functions, held by golden files; RAMET_UPDATE_GOLDEN=1 rewrites them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ramet.backends.interface.values import Primary
from ramet.backends.kubernetes import archive_manifests, manifests, pgbouncer, policies
from ramet.backends.kubernetes.archive_manifests import Recovery
from ramet.backends.kubernetes.configuration import Phase
from ramet.backends.kubernetes.manifests import Manifest
from ramet.backends.kubernetes.site import Exposure, Forks, Site
from ramet.backends.kubernetes.store_access import StoreAccess
from ramet.backends.kubernetes.streaming import Copy
from ramet.backends.kubernetes.traits import CopyRight, Traits
from ramet.model.high_availability import Standbys
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from ramet.model.size import Size
from ramet.model.wal_level import WalLevel
from tests.backends.kubernetes.servers import SHARED, UPSTREAM

GOLDEN = Path(__file__).parent / "golden"
SITE = Site("services")
OTHER_SITE = Site("services", "registry.test/postgresql:{major}", (15,), "fast", "fast-snapshots", 20)
LARGE = replace(SHARED, size=Size(2000, 8), pg_major=15, wal_level=WalLevel.LOGICAL, host="10.1.2.3")
REPLICA = replace(
    SHARED,
    service_id="replica001",
    size=Size(500, 2),
    host="ramet-replica001.services.svc",
    port=15440,
    primary=Primary("abcdefghij", 15432, "replica001", 15442),
)
API = [policies.ApiAddress("192.0.2.1", 6443), policies.ApiAddress("2001:db8::1", 6443)]
OTHER_REPLICA = replace(REPLICA, service_id="replica002", port=15441)
FOLLOWER = replace(SHARED, upstream=UPSTREAM)
TIMESCALE = replace(SHARED, service_type=ServiceType.TIMESERIESDB)

STORE = StoreAccess(
    "s3://bucket/here", "http://store.test:9000", "eu-1", Secret("not in any manifest"), Secret("nor this")
)
WITH_ARCHIVE = replace(SITE, archive=STORE)
RECOVERIES = {
    "of-snapshot": Recovery("abcdefghij", snapshot="ramet-abcdefghij-s1", lsn="0/245C070", facts="{}"),
    "of-base-backup": Recovery("abcdefghij", base_backup_id="20261125T002943", lsn="0/245C070", exclusive=True),
    "of-archive": Recovery("abcdefghij", base_backup_id="20261125T002943"),
}

MANIFESTS = {
    "new": manifests.cluster(SHARED, SITE, Phase.CLOSED),
    "open": manifests.cluster(LARGE, OTHER_SITE, Phase.OPEN, volume_size="30Gi"),
    "fork": manifests.cluster(TIMESCALE, SITE, Phase.CLOSED, first=True, volume_size="10Gi"),
    "archived": manifests.cluster(replace(SHARED, archived_as="elsewhere1"), WITH_ARCHIVE, Phase.OPEN),
    **{
        f"recovered-{name}": manifests.cluster(SHARED, WITH_ARCHIVE, Phase.CLOSED, first=True, recovery=found)
        for name, found in RECOVERIES.items()
    },
    "object-store": archive_manifests.object_store(STORE),
    "object-store-by-role": archive_manifests.object_store(StoreAccess("s3://bucket")),
    "base-backup": archive_manifests.base_backup("abcdefghij", "20261125"),
    "wal-notes": archive_manifests.wal_notes("forkfork12", {"ended": "1"}),
    "wal-reader": archive_manifests.wal_reader("forkfork12", 15, SITE),
    "asleep": manifests.cluster(SHARED, SITE, Phase.CLOSED, asleep=True),
    "standbys": manifests.cluster(replace(SHARED, standbys=Standbys(2, 1)), SITE, Phase.OPEN),
    "replica": manifests.cluster(REPLICA, SITE, Phase.CLOSED, volume_size="30Gi"),
    "copied": manifests.cluster(SHARED, SITE, Phase.CLOSED, first=True, recovery=Copy("parent0001", "{}")),
    "replica-copied": manifests.cluster(REPLICA, replace(SITE, forks=Forks.COPY), Phase.CLOSED),
    "following": manifests.cluster(
        FOLLOWER, SITE, Phase.CLOSED, volume_size="30Gi", traits=Traits({"max_connections": 100, "max_wal_senders": 10})
    ),
    "source-access": manifests.source_access(
        "abcdefghij", UPSTREAM, Secret("of the source"), Traits({"max_connections": 100})
    ),
    "leaving": manifests.cluster(SHARED, SITE, Phase.OPEN, traits=Traits(copy=CopyRight.ADMITTED)),
    "left": manifests.cluster(SHARED, SITE, Phase.OPEN, traits=Traits(copy=CopyRight.REFUSED)),
    "volume-reader": archive_manifests.volume_reader("forkfork12", "mark", "abcdefghij", 15, SITE, "v-1"),
    "policy-closed": policies.closed("forkfork12", API),
    "policy-restricted": policies.restricted("forkfork12", API, ["10.0.0.0/8"]),
    "policy-replica": policies.restricted("replica001", API, [], "forkfork12"),
    "endpoint": manifests.endpoint(SHARED, SITE),
    "endpoint-standbys": manifests.endpoint(replace(SHARED, standbys=Standbys(1)), SITE),
    "endpoint-replicas": manifests.endpoint(REPLICA, SITE),
    "pooler-files": pgbouncer.files([SHARED], "SCRAM-SHA-256$of:nothing"),
    "pooler-files-replicas": pgbouncer.files([REPLICA, OTHER_REPLICA], "SCRAM-SHA-256$of:nothing"),
    "pooler": pgbouncer.deployment([SHARED], SITE, "0123456789abcdef"),
    "pooler-endpoint": pgbouncer.endpoint([SHARED], SITE, 15434, "ramet-abcdefghij-pooler.services.svc"),
    "endpoint-nodeport": manifests.endpoint(replace(SHARED, port=30001), Site("services", exposure=Exposure.NODEPORT)),
    "endpoint-loadbalancer": manifests.endpoint(SHARED, Site("services", exposure=Exposure.LOADBALANCER)),
    "snapshot": manifests.snapshot("abcdefghij", OTHER_SITE, "ramet-abcdefghij-s1", "ramet-abcdefghij-1", "s1"),
    "seed": manifests.snapshot("forkfork12", SITE, "ramet-forkfork12-seed", "ramet-abcdefghij-1"),
    "adopted-volume": manifests.adopted_volume("forkfork12", OTHER_SITE, "ramet-forkfork12-seed", "30Gi"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_manifest_is_the_golden_one(name: str) -> None:
    golden, text = GOLDEN / f"{name}.yaml", yaml.safe_dump(dict(MANIFESTS[name]), sort_keys=True, width=120)
    if os.environ.get("RAMET_UPDATE_GOLDEN"):
        golden.write_text(text)
    assert golden.read_text() == text


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(MANIFESTS)


def clusters() -> list[Manifest]:
    return [one for one in MANIFESTS.values() if one["kind"] == "Cluster"]


def test_a_cluster_is_on_one_volume_without_which_a_snapshot_is_not_atomic() -> None:
    for one in clusters():
        assert "walStorage" not in one["spec"]
        assert "tablespaces" not in one["spec"]


def test_a_closed_server_lets_nobody_in() -> None:
    for name in ("new", "fork", "asleep"):
        assert MANIFESTS[name]["spec"]["postgresql"]["pg_hba"] == ["host all all all reject"]


def test_an_open_server_lets_nobody_in_without_tls_nor_as_the_platform() -> None:
    rules = MANIFESTS["open"]["spec"]["postgresql"]["pg_hba"]
    assert [rule for rule in rules if not rule.endswith("reject")] == [
        "hostssl all pg_ramet_pooler all cert map=ramet_pooler",
        "hostssl all all all scram-sha-256",
    ]
    assert rules.index("host all ramet all reject") < rules.index("hostssl all all all scram-sha-256")


def test_recovery_fetches_no_wal_beyond_its_target() -> None:
    assert {one["spec"]["postgresql"]["parameters"]["recovery_prefetch"] for one in clusters()} == {"off"}


def test_no_subscription_runs_at_the_first_start_of_a_fork() -> None:
    settings = MANIFESTS["fork"]["spec"]["postgresql"]["parameters"]
    assert (settings["max_logical_replication_workers"], settings["timescaledb.max_background_workers"]) == ("0", "0")
    assert "max_logical_replication_workers" not in MANIFESTS["new"]["spec"]["postgresql"]["parameters"]


def test_a_fork_names_no_snapshot_that_retention_could_delete() -> None:
    for name in ("fork", "archived"):
        assert set(MANIFESTS[name]["spec"]["bootstrap"]) == {"initdb"}
        assert "externalClusters" not in MANIFESTS[name]["spec"]


def test_a_commit_waits_for_a_standby_that_is_down_only_where_another_one_can_take_its_place() -> None:
    for standbys, durability in ((Standbys(1, 1), "preferred"), (Standbys(2, 1), "required")):
        found = manifests.cluster(replace(SHARED, standbys=standbys), SITE, Phase.OPEN)
        assert found["spec"]["postgresql"]["synchronous"]["dataDurability"] == durability
    assert "synchronous" not in MANIFESTS["new"]["spec"]["postgresql"]


def test_a_pooler_takes_clients_over_tls_only_and_trusts_no_other_server() -> None:
    text = MANIFESTS["pooler-files"]["data"]["pgbouncer.ini"]
    assert "client_tls_sslmode = require\n" in text
    assert "server_tls_sslmode = verify-full\n" in text


def test_no_secret_is_in_a_manifest() -> None:
    assert "not in any manifest" not in yaml.safe_dump([dict(one) for one in MANIFESTS.values()])


def test_each_service_has_a_name_of_its_own_in_the_archive_also_a_fork() -> None:
    for name in RECOVERIES:
        spec = MANIFESTS[f"recovered-{name}"]["spec"]
        assert spec["plugins"][0]["parameters"]["serverName"] == SHARED.service_id
        assert spec["externalClusters"][0]["plugin"]["parameters"]["serverName"] == "abcdefghij"
    assert MANIFESTS["archived"]["spec"]["plugins"][0]["parameters"]["serverName"] == "elsewhere1"


def test_recovery_has_a_source_and_stops_at_a_record_never_at_a_time() -> None:
    for name in RECOVERIES:
        recovery = MANIFESTS[f"recovered-{name}"]["spec"]["bootstrap"]["recovery"]
        assert recovery["source"] == "origin"
        assert "targetTime" not in recovery["recoveryTarget"]


def test_a_base_backup_waits_for_no_spread_checkpoint() -> None:
    assert MANIFESTS["object-store"]["spec"]["configuration"]["data"]["immediateCheckpoint"]


def test_the_keys_of_the_archive_are_in_a_secret_only_and_nowhere_where_pods_have_a_role() -> None:
    keys = archive_manifests.store_keys(STORE)
    assert keys is not None
    assert set(keys["stringData"]) == {"id", "key", "region"}
    assert archive_manifests.store_keys(StoreAccess("s3://bucket")) is None
