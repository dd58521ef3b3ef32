"""What pages show of services: their states, their operations and their archive, found and listed."""

import html
import re
from datetime import timedelta

import pytest
from msgspec.structs import replace

from harness.waiting import eventually
from ramet.control.archive import set_archive
from ramet.control.duties.archive import OffHostArchive
from ramet.control.plane import utc_now
from ramet.control.restore import list_snapshots, take_snapshot
from ramet.errors import Failed
from ramet.model.archive import is_archived
from ramet.model.procedures import ProcedureName
from ramet.model.service import status_of
from ramet.model.status import OperationStatus, Status
from ramet.model.timestamps import rfc3339
from ramet.store import services
from ramet.store.operations import submit
from ramet.store.tables import operation
from tests.console.visitor import Visitor

_LIST_LIMIT_BYTES = 75_000

_KEPT = {"ttl": "2", "idle_ttl": "0.5", "sleep_after": "0.25", "labels": "pr=42\nteam=a"}
_KEPT_SHOWN = (
    'name="ttl" value="2"',
    'name="idle_ttl" value="0.5"',
    'name="sleep_after" value="0.25"',
    "pr=42\nteam=a",
)


def test_a_service_without_disk_space_is_shown_as_read_only_with_the_remedy(visitor: Visitor) -> None:
    visitor.sign_in()
    page = f"/console/services/{visitor.ready().id}"
    assert "READ-ONLY" not in visitor.see(page) + visitor.see("/console/")
    visitor.world.backend.short_of_room = "The storage has 7 MiB left. Delete services."
    visitor.world.runtime.schedule.perform_due()
    assert "The storage has 7 MiB left. Delete services." in visitor.see(page)
    assert "READ-ONLY" in visitor.see("/console/")


def test_a_service_shows_until_when_its_next_snapshot_is_postponed(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    page, plane = f"/console/services/{service.id}", visitor.world.runtime.plane
    taken = take_snapshot(plane, service.project_id, service.id, "by hand")
    visitor.world.runtime.worker.run_until_idle()
    assert "The last snapshot took long" not in visitor.see(page)
    with visitor.world.runtime.store.write() as tx:
        tx.execute(operation.update().where(operation.c.id == taken.id).values(state={"seconds": 30.0}))
    assert "The last snapshot took long or failed, so the next one is taken" in visitor.see(page)


def test_a_failed_fork_shows_its_reason_and_the_next_step(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Failed("NO_BLOCKS", "The disk has no room for a fork")

    visitor.sign_in()
    service = visitor.ready()
    monkeypatch.setattr(visitor.world.backend.restore, "capture", refuse)
    (first,) = list_snapshots(visitor.world.runtime.plane, service.project_id, service.id)
    chosen = {"strategy": "LAST_SNAPSHOT", "name": "doomed", "environment": "PROD", "size": "500/2"}
    visitor.send(f"/console/services/{service.id}/fork", **chosen, **_KEPT)
    doomed = visitor.named("doomed")
    page = f"/console/services/{doomed.id}"
    eventually(lambda: visitor.named("doomed").failed_at is not None)
    assert status_of(visitor.named("doomed")) is Status.UNSTABLE
    assert f":{doomed.port}<" not in visitor.see("/console/")
    failed = visitor.see(page)
    assert "The disk has no room for a fork" in failed
    assert "shop is unchanged" in failed
    assert re.search(r'<li class="failed"><span>Copy the parent', failed)
    awaited = {"HX-Request": "true", "HX-Target": "progress"}
    assert visitor.client.get(page, headers=awaited).headers["hx-redirect"] == page
    assert not re.search(rf'href="{page}/(rename|password|pool|window)"', failed)
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, doomed.id, failed_at=utc_now() - timedelta(minutes=1))
    assert visitor.client.get(page, headers=awaited).headers["hx-redirect"] == page
    gone = visitor.see(page, 404)
    assert "Creation failed." in gone
    assert "The disk has no room for a fork" in gone
    assert "the parent is unchanged" in gone
    (again,) = re.findall(r'href="([^"]+)">Fork shop again', gone)
    dialog = visitor.see(html.unescape(again))
    for text in ('"LAST_SNAPSHOT" checked', f'"snapshot_id" value="{first.id}"', '"PROD" selected', '"500/2" selected'):
        assert text in dialog
    assert 'value="doomed"' in dialog
    assert [text for text in _KEPT_SHOWN if text not in dialog] == []


def test_a_failed_creation_can_be_repeated_with_the_same_values(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Failed("NO_BLOCKS", "The disk has no room")

    visitor.sign_in()
    monkeypatch.setattr(visitor.world.backend.servers, "initialize", refuse)
    chosen = {"name": "a shop", "service_type": "VECTOR", "size": "500/2", "environment": "PROD"}
    major = str(min(visitor.world.backend.upgrades.majors()))
    chosen |= {"version": major, "wal_level": "logical", **_KEPT}
    assert visitor.send("/console/new", **chosen).status_code == 200
    eventually(lambda: visitor.named("a shop").failed_at is not None)
    failed = visitor.see(f"/console/services/{visitor.named('a shop').id}")
    (again,) = re.findall(r'href="([^"]+)">Create it again', failed)
    form = visitor.see(html.unescape(again))
    for text in ('value="a shop"', '"VECTOR" checked', '"500/2" selected', '"PROD" selected'):
        assert text in form
    shown = (f'"{major}" selected', '"logical" selected', *_KEPT_SHOWN)
    assert [text for text in shown if text not in form] == []


@pytest.mark.parametrize("is_fork", [False, True])
def test_a_failed_recovery_is_run_again_and_not_made_as_another_service(visitor: Visitor, is_fork: bool) -> None:
    visitor.sign_in()
    lost = visitor.ready()
    if is_fork:
        visitor.send(f"/console/services/{lost.id}/fork", name="preview", strategy="NOW", size="shared")
        lost = visitor.settled("preview")
    now = utc_now()
    with visitor.world.runtime.store.write() as tx:
        recovery = submit(tx, ProcedureName.RECOVER, "choose", lost.id, {})
        failed = {"status": OperationStatus.FAILED, "finished_at": now, "error": "The archive is damaged"}
        tx.execute(operation.update().where(operation.c.id == recovery).values(failed))
        services.update_service(tx, lost.id, ready_at=None, failed_at=now, failure="The archive is damaged")
    for status in (200, 404):
        shown = visitor.see(f"/console/services/{lost.id}", status)
        assert "Creation failed.</b> The archive is damaged" in shown
        assert "run <code>ramet recover</code> again on the host." in shown
        assert not re.search("Create it again|Fork shop again|is unchanged", shown)
        with visitor.world.runtime.store.write() as tx:
            services.update_service(tx, lost.id, failed_at=now - timedelta(minutes=1))


def test_a_thousand_services_are_searched_and_paged(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready("needle")
    with visitor.world.runtime.store.write() as tx:
        for number in range(1000):
            copy = replace(service, id=f"s{number:09d}", name=f"straw-{number}", port=30000 + number, activity=None)
            services.insert_service(tx, copy)
    page = visitor.client.get("/console/")
    assert "of 1001" in page.text
    assert page.text.count('class="name"') == 50
    assert "needle" in visitor.see("/console/?q=need+ready")
    assert visitor.see("/console/?q=straw-99").count('class="name"') == 11
    nothing = visitor.see("/console/?q=%22hay%22")
    assert "Nothing matches" in nothing
    assert "that match" not in nothing
    assert 'class="name"' in visitor.see("/console/?number=21")
    lineage = visitor.see("/console/lineage?number=11")
    assert lineage.count('<span class="origin">') == 1
    assert "Page 11 of 11" in lineage
    assert visitor.see("/console/lineage?q=straw-99").count('class="found"') == 11
    assert "Nothing matches" in visitor.see("/console/lineage?q=hay")
    for path in ("/console/", "/console/lineage"):
        assert len(visitor.see(path)) < _LIST_LIMIT_BYTES


def test_the_lineage_shows_when_a_fork_was_created_and_the_time_of_its_data(visitor: Visitor) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    answer = visitor.send(f"/console/services/{shop.id}/fork", strategy="LAST_SNAPSHOT", name="copy")
    assert answer.status_code == 200, answer.text
    fork = visitor.settled("copy")
    restore_times = re.findall(
        r'<time datetime="([^"]+)"', visitor.see("/console/lineage?q=copy").split(">copy</a>")[1]
    )
    assert fork.origin is not None
    assert fork.origin.data_time is not None
    assert restore_times == [rfc3339(fork.created_at), rfc3339(fork.origin.data_time)]


def test_every_operation_is_listed_also_of_deleted_services(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    base = f"/console/services/{service.id}"
    assert "Prepare the newest snapshot" not in visitor.see(f"{base}/operations")
    assert "Prepare the newest snapshot" in visitor.see(f"{base}/operations?all=true")
    with visitor.world.runtime.store.write() as tx:
        for number in range(120):
            submit(tx, "stop" if number % 2 else "start", "nowhere", service.id, {})
        tx.execute(operation.update().where(operation.c.step == "nowhere").values(status="FAILED"))
    assert f'href="{base}/operations"' in visitor.see(base)
    seen: list[str] = []
    path = f"{base}/operations"
    while path:
        page = visitor.see(path)
        seen += re.findall(r'id="op-([^"]+)"', page)
        older = re.findall(r'rel="next" href="([^"]+)"', page)
        path = older[0] if older else ""
    assert len(seen) == len(set(seen))
    assert len(seen) >= 121
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, service.id, deleted_at=utc_now())
    assert f'href="{base}/operations"' in visitor.see(base, 404)
    assert "Operations" in visitor.see(f"{base}/operations")
    assert visitor.client.get(f"{base}/operations?cursor=broken").status_code == 400


def test_archiving_is_switched_on_and_off_and_prod_services_need_the_name(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    path = f"/console/services/{service.id}"
    assert "Set RAMET_ARCHIVE_URL" in visitor.send(f"{path}/archive").text
    visitor.world.backend.archive.location = "s3://bucket"
    assert f'href="{path}/archive"' in visitor.see(path)
    assert visitor.send(f"{path}/archive").status_code == 303
    assert is_archived(visitor.named("shop"))
    assert f'href="{path}/unarchive"' in visitor.see(path)
    visitor.send(f"{path}/environment", environment="PROD")
    assert visitor.send(f"{path}/unarchive").status_code == 422
    assert visitor.send(f"{path}/unarchive", confirmation="shop").status_code == 303
    assert not is_archived(visitor.named("shop"))


def test_a_service_shows_whether_it_is_archived_and_how_old_the_last_verified_restore_is(visitor: Visitor) -> None:
    visitor.sign_in()
    plane = visitor.world.runtime.plane
    service = visitor.ready()
    path = f"/console/services/{service.id}"
    assert "Off-host archive" not in visitor.client.get(path).text
    visitor.world.backend.archive.location = "s3://bucket"
    assert '<dt>Off-host archive</dt><dd><span class="soft">off</span>' in visitor.client.get(path).text
    set_archive(plane, service.project_id, service.id, True)
    OffHostArchive(plane).maintain()
    page = visitor.client.get(path).text
    assert "<dt>Off-host archive</dt><dd>on, up to" in page
    assert "not verified yet" in page.partition("Off-host archive")[2].partition("</dd>")[0]
    with plane.store.write() as tx:
        services.update_service(
            tx, service.id, archive_verified_at=utc_now(), archive_drill_failure="part 7 was altered"
        )
    shown = visitor.client.get(path).text.partition("Off-host archive")[2].partition("</dd>")[0]
    assert "restore verified" in shown
    assert "part 7 was altered" in shown
