"""Changes through the forms of the console: replicas, poolers, restore windows, snapshots, statistics."""

import html
import re

import pytest

from harness.waiting import eventually
from ramet.console.views.restore_settings import AMOUNTS, Amount, entered_settings
from ramet.control import restore
from ramet.control.restore import list_snapshots
from ramet.model.environment import Environment
from ramet.model.passwords import Secret
from ramet.model.replica_set import ReplicaSet, replica_status
from ramet.model.restore_window import BOUNDS, RestoreSettings
from ramet.model.service import Service, status_of
from ramet.model.size import Size
from ramet.model.snapshot import Snapshot, SnapshotKind
from ramet.model.status import ReplicaSetStatus, Status
from ramet.procedures.servers import server_of
from ramet.store import services
from tests.console.visitor import Visitor


def _base(service: Service) -> str:
    return f"/console/services/{service.id}"


def _with_replicas(visitor: Visitor) -> tuple[Service, str]:
    """Make a service with a set of two replicas; return the service and the path of the set."""
    visitor.sign_in()
    service = visitor.ready()
    answer = visitor.send(f"{_base(service)}/add-replicas", name="reports", nodes="2", size="500/2")
    assert answer.status_code == 303, answer.text
    eventually(lambda: replica_status(_set(visitor)) is ReplicaSetStatus.ACTIVE)
    return service, f"{_base(service)}/replicas/{_set(visitor).id}"


def _set(visitor: Visitor) -> ReplicaSet:
    return visitor.named("shop").replica_sets[0]


def _wrong(page: str, field: str) -> str:
    """Return what a page says beside a field."""
    found = re.search(rf'id="wrong-{field}">([^<]+)<', page)
    assert found is not None, page
    return html.unescape(found[1])


def _manual(visitor: Visitor, service: Service) -> list[Snapshot]:
    found = list_snapshots(visitor.world.runtime.plane, service.project_id, service.id)
    return [one for one in found if isinstance(one, Snapshot) and one.kind is SnapshotKind.MANUAL]


def test_read_replicas_are_added_and_shown_and_found_by_their_id(visitor: Visitor) -> None:
    service, path = _with_replicas(visitor)
    found = _set(visitor)
    page = visitor.see(path)
    for text in ("active", f"{found.host}:{found.port}", *(f"{found.host}:{node.port}" for node in found.nodes)):
        assert text in page
    shown = visitor.see(_base(service))
    assert f"{found.host}:{found.port}" in shown
    assert "2 × 0.5 CPU · 2 GB" in shown
    answer = visitor.client.get(f"/console/services/{found.id}")
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    assert "has no read replica set" in visitor.see(f"{_base(service)}/replicas/abcdefghij", 404)


def test_invalid_values_of_a_replica_set_are_reported_at_their_field(visitor: Visitor) -> None:
    visitor.sign_in()
    path = f"{_base(visitor.ready())}/add-replicas"
    for nodes, reason in (
        ("5", "between 1 and 4"),
        ("0", "between 1 and 4"),
        ("two", "whole number"),
        ("", "whole number"),
    ):
        answer = visitor.send(path, name="reports", nodes=nodes, size="500/2")
        assert answer.status_code == 422
        assert reason in _wrong(answer.text, "nodes")
    answer = visitor.send(path, name=" ", nodes="1", size="500/2")
    assert "printable characters" in _wrong(answer.text, "name")
    answer = visitor.send(path, name="reports", nodes="1", size="shared")
    assert "its own size" in _wrong(answer.text, "size")
    assert visitor.named("shop").replica_sets == ()


def test_replicas_are_resized_pooled_and_deleted(visitor: Visitor) -> None:
    service, path = _with_replicas(visitor)
    assert 'value="500/2" selected' in visitor.see(f"{path}/resize")
    assert visitor.send(f"{path}/resize", size="1000/4").headers["location"] == path
    eventually(lambda: _set(visitor).size == Size(1000, 4) and _set(visitor).activity is None)
    assert visitor.send(f"{path}/pool").status_code == 303
    pooler = f"{_set(visitor).host}:{_set(visitor).pooler_port}"
    assert pooler in visitor.see(path)
    assert visitor.send(f"{path}/unpool").status_code == 303
    assert _set(visitor).pooler_port is None
    assert visitor.send(f"{path}/delete").status_code == 422
    assert visitor.send(f"{path}/delete", confirmation="shop").status_code == 422
    assert visitor.send(f"{path}/delete", confirmation="reports").headers["location"] == _base(service)
    eventually(lambda: visitor.named("shop").replica_sets == ())
    assert visitor.client.get(f"{path}/explode").status_code == 404


def test_disruptive_changes_of_prod_replicas_require_their_name(visitor: Visitor) -> None:
    _, path = _with_replicas(visitor)
    assert visitor.send(f"{path}/environment", environment="PROD").status_code == 303
    assert _set(visitor).environment is Environment.PROD
    assert visitor.named("shop").environment is Environment.DEV
    for verb, fields in (("resize", {"size": "1000/4"}), ("unpool", {}), ("environment", {"environment": "DEV"})):
        answer = visitor.send(f"{path}/{verb}", **fields)
        assert (answer.status_code, _wrong(answer.text, "confirmation")) == (422, "Type 'reports' to confirm")
    assert visitor.send(f"{path}/environment", environment="DEV", confirmation="reports").status_code == 303


def test_optimize_works_on_ready_services_only(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    assert visitor.send(f"{_base(service)}/optimize").status_code == 303
    visitor.settled("shop")
    assert "Optimize" in visitor.see(_base(service))
    visitor.send(f"{_base(service)}/pause")
    eventually(lambda: visitor.named("shop").paused)
    refused = visitor.send(f"{_base(service)}/optimize")
    assert refused.status_code == 409
    assert "needs it to be READY" in refused.text


def test_restore_settings_are_entered_in_days_minutes_and_megabytes(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    path = f"{_base(service)}/window"
    typed = {"window_days": "30", "snapshot_interval_seconds": "2.5", "snapshot_wal_bytes": "64"}
    answer = visitor.send(path, **typed)
    assert answer.status_code == 303, answer.text
    assert "The settings of the restore window have been saved." in visitor.see(answer.headers["location"])
    plane = visitor.world.runtime.plane
    assert restore.get_restore_window(plane, service.project_id, service.id).settings == RestoreSettings(
        30, 150, 64 * 1024**2
    )
    page = visitor.see(path)
    assert all(f'value="{value}"' in page for value in typed.values())
    empty = dict.fromkeys(typed, "")
    assert visitor.send(path, **empty).status_code == 303
    assert restore.get_restore_window(plane, service.project_id, service.id).settings == plane.restore


def test_a_setting_out_of_bounds_is_reported_at_its_field(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    path = f"{_base(service)}/window"
    half_a_day = ("window_days", "2.5")
    for name, text in (
        half_a_day,
        ("window_days", "0"),
        ("snapshot_interval_seconds", "0.5"),
        ("snapshot_wal_bytes", "much"),
    ):
        answer = visitor.send(path, **{name: text})
        assert answer.status_code == 422
        assert re.search("Enter a (whole )?number from", _wrong(answer.text, name))
        assert f'value="{text}"' in answer.text
    assert visitor.named("shop").settings == {}
    assert visitor.send(path, window_days="nan").status_code == 422
    assert visitor.send(path, window_days="1e400").status_code == 422


def test_a_shorter_window_of_a_prod_service_requires_the_name(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    visitor.send(f"{_base(service)}/environment", environment="PROD")
    assert "confirm" in _wrong(visitor.send(f"{_base(service)}/window", window_days="1").text, "confirmation")
    assert visitor.send(f"{_base(service)}/window", window_days="1", confirmation="shop").status_code == 303


def test_the_restore_settings_say_when_snapshots_are_taken(visitor: Visitor) -> None:
    visitor.sign_in()
    page = visitor.see(_base(visitor.ready()))
    assert "every 10 minutes or after 128 MB of WAL, and once more when the writes stop." in page


def test_both_bounds_of_every_setting_can_be_entered() -> None:
    assert {amount.name for amount in AMOUNTS} == set(BOUNDS)
    for amount in AMOUNTS:
        low, high = amount.bounds
        assert round(float(low) * amount.unit_size) == BOUNDS[amount.name][0]
        assert float(high) * amount.unit_size == BOUNDS[amount.name][1]
        assert amount.shown(BOUNDS[amount.name][1]) == high


@pytest.mark.parametrize("amount", AMOUNTS, ids=lambda amount: amount.name)
def test_every_value_that_is_shown_can_be_entered(amount: Amount) -> None:
    low, high = BOUNDS[amount.name]
    for value in (low, low + 1, 100, 12_345, 123_456_789, 987_654_321_001, high - 1, high):
        if low <= value <= high:
            assert entered_settings({amount.name: amount.shown(value)})[0][amount.name] == value


def test_a_snapshot_is_taken_forked_and_deleted(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    visitor.world.backend.commit(service.id, "kept")
    visitor.send(f"{_base(service)}/snapshot", name="before the migration")
    eventually(lambda: len(_manual(visitor, service)) == 1)
    visitor.world.backend.commit(service.id, "later")
    (taken,) = _manual(visitor, service)
    page = visitor.see(f"{_base(service)}/snapshots")
    assert "before the migration" in page
    fork = f"{_base(service)}/fork?snapshot_id={taken.id}"
    assert f"{_base(service)}/fork?snapshot_id={taken.id}" in page
    assert "before the migration" in visitor.see(fork)
    answer = visitor.send(fork, strategy="LAST_SNAPSHOT", name="rescued")
    assert answer.status_code == 200, answer.text
    assert visitor.world.backend.values(visitor.settled("rescued").id) == ["kept"]

    visitor.send(f"{_base(service)}/environment", environment="PROD")
    path = f"{_base(service)}/snapshots/{taken.id}/delete"
    assert "confirm" in _wrong(visitor.send(path).text, "confirmation")
    done = visitor.send(path, confirmation="shop")
    assert done.status_code == 303
    assert "The snapshot is being deleted." in visitor.see(done.headers["location"])
    eventually(lambda: _manual(visitor, service) == [])
    assert "has no snapshot with id" in visitor.see(path, 404)


def test_the_page_of_a_snapshot_in_use_says_why_it_cannot_be_deleted(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    (first,) = list_snapshots(visitor.world.runtime.plane, service.project_id, service.id)
    path = f"{_base(service)}/snapshots/{first.id}/delete"
    page = visitor.see(path)
    assert "belongs to the restore window" in page
    assert "Delete it" not in page
    refused = visitor.send(path)
    assert refused.status_code == 422
    assert "only manual snapshots can be deleted" in refused.text


def test_white_space_does_not_matter_when_a_name_is_confirmed(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready("shop")
    for name, typed in (("old  shop", "old shop"), (" outer ", "outer"), ("same  same", "same  same")):
        with visitor.world.runtime.store.write() as tx:
            services.update_service(tx, service.id, name=name, environment=Environment.PROD)
        assert f'<b class="typed">{name}</b>' in visitor.see(f"{_base(service)}/unpool")
        answer = visitor.send(f"{_base(service)}/environment", environment="DEV", confirmation=typed)
        assert answer.status_code == 303, answer.text
    assert visitor.send(f"{_base(service)}/delete", confirmation="samesame").status_code == 422


def test_white_space_in_a_password_is_kept(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    visitor.send(f"{_base(service)}/password", password="  correct horse ")
    has_password = visitor.world.runtime.plane.backend.servers.has_password
    assert has_password(server_of(service), Secret("  correct horse "))
    assert not has_password(server_of(service), Secret("correct horse"))


def test_a_changed_password_is_confirmed(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    answer = visitor.send(f"{_base(service)}/password", password="correct horse")
    assert "The password of tsdbadmin has been changed" in visitor.see(answer.headers["location"])
    assert "The password of tsdbadmin has been changed" not in visitor.see(f"{_base(service)}?done=explode")


def test_high_availability_is_offered_where_there_are_hosts_for_it(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor.sign_in()
    service = visitor.ready()
    path = f"{_base(service)}/high-availability"
    assert "High availability" not in visitor.see(_base(service))
    assert "this backend has one" in visitor.send(path, replicas="1", synchronous="0").text
    monkeypatch.setattr(visitor.world.backend, "has_standbys", True)
    assert "no replicas" in visitor.see(_base(service))
    assert visitor.send(path, replicas="two", synchronous="0").status_code == 422
    assert visitor.send(path, replicas="2", synchronous="1").status_code == 303
    eventually(lambda: "2 replicas, 1 synchronous" in visitor.see(_base(service)))


def test_the_wal_level_is_set_and_slots_are_shown_with_what_they_retain(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    assert 'value="logical" checked' in visitor.see(f"{_base(service)}/wal-level")
    assert visitor.send(f"{_base(service)}/wal-level", wal_level="minimal").status_code == 422
    assert visitor.send(f"{_base(service)}/wal-level", wal_level="logical").status_code == 303
    eventually(lambda: status_of(visitor.named("shop")) is Status.READY)
    volume = visitor.world.backend.volumes[service.id]
    volume.slots.add("outside")
    page = visitor.see(_base(service))
    assert "<code>outside</code> retains" in page
    assert "has no reader" in page
    refused = visitor.send(f"{_base(service)}/wal-level", wal_level="replica")
    assert "has the replication slots outside" in html.unescape(refused.text)
