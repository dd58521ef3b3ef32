"""Upgrades in the console: form, confirmation, progress, report. The version of a new service, reports of imports."""

from datetime import timedelta

from harness.waiting import eventually
from ramet.backends.interface.sources import Destination
from ramet.control.plane import utc_now
from ramet.errors import Failed
from ramet.model.environment import Environment
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.model.upgrade import Refusal, Statement
from ramet.store import services
from tests.console.test_imports import FIELDS, backend_of
from tests.console.visitor import Visitor

NEW = "19"


def begun(visitor: Visitor, service: Service, **fields: str) -> str:
    """Send the form; return the path of the report."""
    answer = visitor.send(f"/console/services/{service.id}/upgrades", version=NEW, **fields)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def ended(visitor: Visitor, path: str) -> str:
    """Return the page of a report when it does not wait for changes any more."""
    eventually(lambda: "data-live" not in visitor.see(path).partition('id="upgrade"')[2][:80])
    return visitor.see(path)


def test_a_trial_is_reported_with_rows_and_plans(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    backend_of(visitor).commit(service.id, "one")
    backend_of(visitor).upgrades.statements[:] = [Statement("SELECT 1", 5)]
    page = ended(visitor, begun(visitor, service, kind="try"))
    for text in (
        "tried on a fork",
        "1 in 1 table",
        "1 statement planned",
        "stops it for about",
        "Duration on the fork",
    ):
        assert text in page, text
    shown = visitor.see(f"/console/services/{service.id}")
    assert "Trial of the upgrade" in shown
    assert status_of(visitor.named("shop")) is Status.READY


def test_what_the_trial_found_wrong_is_shown(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    upgrades = backend_of(visitor).upgrades
    backend_of(visitor).commit(service.id, "one")
    upgrades.loses_rows, upgrades.problems = True, ["tsdb.pg_trgm: cannot be updated"]
    page = ended(visitor, begun(visitor, service, kind="try"))
    for text in ("Rows of tsdb.public.rows differ", "1 row before, 0 rows after", "tsdb.pg_trgm: cannot be updated"):
        assert text in page, text
    upgrades.fault = "a data type of that version is gone"
    assert "a data type of that version is gone" in ended(visitor, begun(visitor, service, kind="try"))
    upgrades.refusals = [Refusal("extension old", "it is not installed", "Drop it.")]
    answer = visitor.send(f"/console/services/{service.id}/upgrades", version=NEW, kind="try")
    assert (answer.status_code, "extension old: it is not installed" in answer.text) == (422, True)


def test_a_prod_service_is_upgraded_after_its_name_was_typed(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, service.id, environment=Environment.PROD.value)
    path = f"/console/services/{service.id}/upgrades"
    answer = visitor.send(path, version=NEW, kind="upgrade")
    assert (answer.status_code, "to confirm" in answer.text) == (422, True)
    page = ended(visitor, begun(visitor, service, kind="upgrade", confirmation="shop"))
    assert "The service was down for" in page
    assert "shop-before-19" in page
    assert visitor.named("shop").pg_major == int(NEW)
    assert "This host has no PostgreSQL later than 19" in visitor.see(path)


def test_a_fork_that_is_kept_shows_its_password_once(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    answer = visitor.send(f"/console/services/{service.id}/upgrades", version=NEW, kind="keep")
    assert (answer.status_code, "Password (shown only once)" in answer.text) == (200, True)
    fork = visitor.named("shop-upgrade-19")
    visitor.see(f"/console/services/{fork.id}")
    assert visitor.settled("shop-upgrade-19").pg_major == int(NEW)
    assert "Fork report" in visitor.see(f"/console/services/{fork.id}")


def test_a_trial_with_a_fork_that_was_to_be_kept_leads_to_the_upgrades_when_it_failed(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    backend_of(visitor).upgrades.fault = "a data type of that version is gone"
    assert visitor.send(f"/console/services/{service.id}/upgrades", version=NEW, kind="keep").status_code == 200
    eventually(lambda: visitor.named("shop-upgrade-19").failed_at is not None)
    fork = visitor.named("shop-upgrade-19")
    for status in (200, 404):
        shown = visitor.see(f"/console/services/{fork.id}", status)
        assert f'href="/console/services/{service.id}/upgrades">Upgrades of shop' in shown
        assert "Fork shop again" not in shown
        with visitor.world.runtime.store.write() as tx:
            services.update_service(tx, fork.id, failed_at=utc_now() - timedelta(minutes=1))


def test_the_version_of_a_new_service_can_be_chosen(visitor: Visitor) -> None:
    visitor.sign_in()
    fields = {"service_type": "POSTGRES", "size": "shared", "environment": "DEV", "name": "chosen"}
    assert visitor.send("/console/new", **fields, version="17").status_code == 200
    assert visitor.settled("chosen").pg_major == 17
    wrong = visitor.send("/console/new", **fields, version="7")
    assert (wrong.status_code, 'id="wrong-version"' in wrong.text) == (422, True)


def test_the_page_of_an_imported_service_leads_to_its_report(visitor: Visitor) -> None:
    visitor.sign_in()
    visitor.send("/console/import", **FIELDS, action="import")
    service = visitor.settled("copy")
    path = f"/console/services/{service.id}/import"
    assert f'href="{path}"' in visitor.see(f"/console/services/{service.id}")
    assert "what postgres owns will belong to tsdbadmin" in visitor.see(path)


def test_the_report_of_an_import_that_failed_can_be_seen(visitor: Visitor) -> None:
    visitor.sign_in()
    backend_of(visitor).sources.destination = Destination(18, 18, 2**40)
    backend_of(visitor).sources.fault = Failed("FETCH_FAILED", "the source has gone away")
    visitor.send("/console/import", **FIELDS, action="import")
    eventually(lambda: visitor.named("copy").failed_at is not None)
    service = visitor.named("copy")
    assert "report" in visitor.see(f"/console/services/{service.id}")
    assert "the source has gone away" in visitor.see(f"/console/services/{service.id}/import")
