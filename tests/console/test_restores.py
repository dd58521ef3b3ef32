"""Restores in place in the console: from the time line, of a snapshot, undone; resets and rewinds of forks."""

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from harness.waiting import eventually
from ramet.backends.memory.replacements import MemoryReplacements
from ramet.control.protection import set_protection
from ramet.control.restore import list_snapshots, take_snapshot
from ramet.control.services import list_services
from ramet.errors import Failed
from ramet.model.environment import Environment
from ramet.model.service import Service
from ramet.model.timestamps import rfc3339
from ramet.restores.verbs import Restore, list_restores
from ramet.store import services
from tests.console.browsers import enter, watch
from tests.console.visitor import Visitor


def base(service: Service) -> str:
    return f"/console/services/{service.id}"


def restored(visitor: Visitor, service: Service, **fields: str) -> Restore:
    """Send the form of restores, and return the restore when it is over."""
    answer = visitor.send(f"{base(service)}/restores", **fields)
    assert answer.status_code == 303, answer.text
    return ended(visitor, service)


def ended(visitor: Visitor, service: Service) -> Restore:
    eventually(lambda: newest(visitor, service).finished_at is not None)
    found = newest(visitor, service)
    assert found.error is None
    return found


def newest(visitor: Visitor, service: Service) -> Restore:
    return list_restores(visitor.world.runtime.plane, service.project_id, service.id)[0]


def values(visitor: Visitor, service: Service) -> list[str]:
    return visitor.world.backend.values(service.id)


def committed(visitor: Visitor, service: Service, *texts: str) -> str:
    """Commit rows, and return a time after the first."""
    backend = visitor.world.backend
    backend.commit(service.id, texts[0])
    at = rfc3339(backend.clock())
    for text in texts[1:]:
        backend.commit(service.id, text)
    return at


def checkpoint(visitor: Visitor, service: Service, name: str) -> str:
    plane = visitor.world.runtime.plane
    taken = take_snapshot(plane, service.project_id, service.id, name)
    eventually(
        lambda: (
            taken.id
            in [one.id for one in list_snapshots(plane, service.project_id, service.id) if hasattr(one, "size_bytes")]
        )
    )
    return taken.id


def test_the_time_line_offers_to_restore_at_a_time_and_the_restore_is_undone(
    visitor: Visitor, context: BrowserContext
) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    page = enter(context, visitor.link)
    complaints = watch(page)
    page.goto(visitor.origin + base(shop))
    committed(visitor, shop, "kept")
    page.locator("a.pick").click()
    here = page.locator("#here")
    expect(here).to_contain_text("As of")
    expect(here.get_by_role("link", name="Fork", exact=True)).to_have_attribute("href", re.compile("target_time=20"))
    here.get_by_role("link", name="Restore here").click()
    expect(page.get_by_label("Target time")).to_have_value(re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+05:30"))
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.locator("#restore .pill.ok")).to_have_text("done")
    expect(page.locator("#restore")).to_contain_text("did not answer for")
    assert values(visitor, shop) == []
    page.get_by_role("link", name="Undo the restore").click()
    expect(page.get_by_label("Service with the data")).to_have_value(str(newest(visitor, shop).previous_service_id))
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.locator("#restore .pill.ok")).to_have_text("done")
    assert values(visitor, shop) == ["kept"]
    assert complaints == []


def test_a_snapshot_is_restored_and_the_list_has_reports_seconds_and_undos(visitor: Visitor) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    committed(visitor, shop, "one")
    taken = checkpoint(visitor, shop, "good")
    visitor.world.backend.commit(shop.id, "two")
    offered = f"{base(shop)}/restores?snapshot_id={taken}"
    assert offered in visitor.see(base(shop))
    assert offered in visitor.see(f"{base(shop)}/snapshots")
    assert f'value="{taken}" selected' in visitor.see(offered)
    found = restored(visitor, shop, strategy="LAST_SNAPSHOT", snapshot_id=taken)
    assert values(visitor, shop) == ["one"]
    page = visitor.see(f"{base(shop)}/restores")
    previous = str(found.previous_service_id)
    for text in ("Restored to “good”", f"restores/{found.id}", f"from_service_id={previous}"):
        assert text in page, text
    assert re.search(r"\d m?s</td>", page)
    undone = restored(visitor, shop, strategy="NOW", from_service_id=previous, discard="yes")
    assert (values(visitor, shop), undone.previous_service_id) == (["one", "two"], None)
    assert "shop-before-restore-" in visitor.see(f"{base(shop)}/restores/{undone.id}")


def test_the_page_of_a_restore_that_failed_says_which_data_the_service_has(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    at = committed(visitor, shop, "one")
    for step, said in (("close", "The service has the data of before."), ("open", "the restored data.")):
        with monkeypatch.context() as patched:
            patched.setattr(MemoryReplacements, step, _failing)
            visitor.send(f"{base(shop)}/restores", strategy="PITR", target_time=at, discard="yes")
            eventually(lambda: newest(visitor, shop).finished_at is not None)
        assert said in visitor.see(f"{base(shop)}/restores/{newest(visitor, shop).id}")


def _failing(*_: object, **__: object) -> None:
    raise Failed("SERVER_DOWN", "The server did not start")


def test_prod_is_restored_only_after_its_name_was_typed(visitor: Visitor) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    at = committed(visitor, shop, "one", "two")
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, shop.id, environment=Environment.PROD.value)
    fields = {"strategy": "PITR", "target_time": at}
    refused = visitor.send(f"{base(shop)}/restores", **fields)
    assert (refused.status_code, 'id="wrong-confirmation"' in refused.text) == (422, True)
    assert values(visitor, shop) == ["one", "two"]
    restored(visitor, shop, **fields, confirmation=" shop ")
    assert values(visitor, shop) == ["one"]


def test_what_is_missing_or_refused_is_said_at_its_field(visitor: Visitor) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    path = f"{base(shop)}/restores"
    for strategy, field in (
        ("PITR", "target_time"),
        ("LAST_SNAPSHOT", "snapshot_id"),
        ("NOW", "from_service_id"),
        ("x", "strategy"),
    ):
        answer = visitor.send(path, strategy=strategy)
        assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True), field
    early = visitor.send(path, strategy="PITR", target_time="2001-01-01T00:00:00Z")
    assert 'id="wrong-target_time"' in early.text
    plane = visitor.world.runtime.plane
    set_protection(plane, shop.project_id, shop.id, protected=True)
    assert "is protected" in visitor.see(path)
    assert f'href="{base(shop)}/restores?' not in visitor.see(base(shop))


def test_a_fork_is_reset_and_rewound_on_its_page(visitor: Visitor) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    committed(visitor, shop, "one")
    visitor.send(f"{base(shop)}/fork", strategy="NOW", name="preview")
    fork = visitor.settled("preview")
    page = visitor.see(base(fork))
    for verb in ("reset", "checkpoint", "rewind", "extend"):
        assert f'href="{base(fork)}/{verb}"' in page
    assert f'href="{base(shop)}/reset"' not in visitor.see(base(shop))
    assert "has no checkpoint" in visitor.see(f"{base(fork)}/rewind")
    assert visitor.send(f"{base(fork)}/checkpoint", name="").status_code == 422
    assert visitor.send(f"{base(fork)}/checkpoint", name="start").headers["location"].endswith("?done=checkpoint")
    eventually(lambda: "<option>start</option>" in visitor.see(f"{base(fork)}/rewind"))
    visitor.world.backend.commit(fork.id, "tried")
    assert visitor.send(f"{base(fork)}/rewind", checkpoint="start").headers["location"].endswith("?done=rewind")
    ended(visitor, fork)
    assert values(visitor, fork) == ["one"]
    at = committed(visitor, shop, "two", "three")
    missing = visitor.send(f"{base(fork)}/reset", strategy="PITR")
    assert 'id="wrong-target_time"' in missing.text
    visitor.send(f"{base(fork)}/reset", strategy="PITR", target_time=at)
    ended(visitor, fork)
    assert values(visitor, fork) == ["one", "two"]
    visitor.send(f"{base(fork)}/reset", strategy="NOW", keep="yes")
    ended(visitor, fork)
    assert values(visitor, fork) == ["one", "two", "three"]
    listed = visitor.see(f"{base(fork)}/restores")
    assert "Rewound to “start”" in listed
    assert "Reset to the data of the parent" in re.sub(r"\s+", " ", listed)
    known = list_services(visitor.world.runtime.plane, shop.project_id)
    assert sum(one.name.startswith("preview-before-restore-") for one in known) == 1


def test_the_page_of_a_service_that_is_no_fork_leads_to_the_restore(visitor: Visitor) -> None:
    visitor.sign_in()
    shop = visitor.ready()
    page = visitor.see(f"{base(shop)}/reset")
    assert "is not a fork" in page
    assert f'href="{base(shop)}/restores"' in page
