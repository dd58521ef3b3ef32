"""The audit in the console: its page, and an entry for each form."""

import json
from pathlib import Path

from ramet.console.pages import handlers
from ramet.console.pages.replica_sets import CHANGES as SET_CHANGES
from ramet.console.pages.service_changes import CHANGES
from tests.audited import entries_of
from tests.console.visitor import Visitor

INTERFACE = Path(__file__).parents[2] / "openapi.json"


def _operations() -> set[str]:
    paths = json.loads(INTERFACE.read_text())["paths"].values()
    return {one["operationId"] for methods in paths for one in methods.values()}


def test_every_change_has_the_name_of_an_operation_of_the_interface() -> None:
    assert {one.operation for one in CHANGES.values()} | {
        one.operation for one in SET_CHANGES.values()
    } <= _operations()


def test_every_form_that_changes_something_leaves_an_entry_whatever_is_in_it(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    store = visitor.world.runtime.store
    forms = [one for one in handlers() if "POST" in one.http_methods and one.opt.get("recorded", True)]  # type: ignore[attr-defined]
    paths = [path for one in forms for path in one.paths]
    named = {"{service_id:str}": service.id, "{set_id:str}": "a123456789", "{snapshot_id:str}": "a123456789"}
    addresses = [path for path in paths if "{change:str}" not in path]
    addresses += [f"/services/{service.id}/{change}" for change in CHANGES]
    addresses += [f"/services/{service.id}/replicas/a123456789/{change}" for change in SET_CHANGES]
    for number, address in enumerate(sorted(addresses, key=lambda one: one == "/sign-out")):
        for place, value in named.items():
            address = address.replace(place, value)
        request_id = f"form-{number}"
        visitor.client.post(f"/console{address}", data={"name": ""}, headers={"X-Request-Id": request_id})
        (entry,) = entries_of(store, request_id=request_id)
        assert (entry.outcome, entry.via) == ("refused", "console"), address


def test_changes_through_forms_are_shown_with_who_made_them(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    visitor.send(f"/console/services/{service.id}/rename", name="store")
    visitor.send(f"/console/services/{service.id}/protect")
    renamed, protected = entries_of(visitor.world.runtime.store)[-2:]
    assert (renamed.verb, renamed.fields["name"], renamed.outcome) == ("renameService", "store", "accepted")
    assert (protected.verb, protected.fields["protected"]) == ("setProtection", True)
    page = visitor.see("/console/audit")
    for text in ("renameService", "name=store", "signIn", f"key first ({visitor.world.public_key})", "127.0.0.1"):
        assert text in page
    assert "renameService" not in visitor.see("/console/audit?verb=signIn")
    assert "No entry matches" in visitor.see("/console/audit?actor=nobody")
    assert f"by key first ({visitor.world.public_key})" in visitor.see(f"/console/services/{service.id}/operations")


def test_what_is_typed_as_a_password_is_not_recorded(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    visitor.send(f"/console/services/{service.id}/password", password="hunter2-sentinel")
    wrong = {"public_key": visitor.world.public_key, "secret_key": "hunter2-sentinel"}
    visitor.client.post("/console/sign-in", data=wrong)
    recorded = entries_of(visitor.world.runtime.store)
    assert "hunter2-sentinel" not in repr(recorded)
    assert [one.outcome for one in recorded if one.verb == "updatePassword"] == ["started", "accepted"]
    assert (recorded[-1].verb, recorded[-1].code) == ("signIn", "UNAUTHORIZED")
