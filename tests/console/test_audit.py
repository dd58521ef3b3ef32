"""The audit in the console: its page, and an entry for each form."""

import json
import re
from pathlib import Path

from ramet.console.pages import handlers
from ramet.console.pages.replica_sets import CHANGES as SET_CHANGES
from ramet.console.pages.service_changes import CHANGES
from ramet.control.plane import utc_now
from ramet.model.rights import Role
from tests.audited import entries_of
from tests.console.visitor import Visitor

INTERFACE = Path(__file__).parents[2] / "openapi.json"
_TOKEN = re.compile(r'name="_token" value="([^"]+)"')


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
    verbs = {f"/services/{service.id}/{name}": change.operation for name, change in CHANGES.items()}
    of_set = f"/services/{service.id}/replicas/a123456789"
    verbs |= {f"{of_set}/{name}": change.operation for name, change in SET_CHANGES.items()}
    for number, address in enumerate(sorted([*addresses, *verbs], key=lambda one: one == "/sign-out")):
        verb = verbs.get(address)
        for place, value in named.items():
            address = address.replace(place, value)
        request_id = f"form-{number}"
        visitor.client.post(f"/console{address}", data={"name": ""}, headers={"X-Request-Id": request_id})
        (entry,) = entries_of(store, request_id=request_id)
        assert (entry.outcome, entry.via) == ("refused", "console"), address
        assert verb is None or entry.verb == verb, address


def test_who_may_not_make_a_change_or_names_no_service_is_recorded_with_the_change_and_its_page_is_not(
    visitor: Visitor,
) -> None:
    visitor.sign_in()
    service, runtime = visitor.ready(), visitor.world.runtime
    viewer, secret = runtime.projects.create_key(service.project_id, "viewer", utc_now(), role=Role.VIEWER)
    token = {"_token": _TOKEN.findall(visitor.see(f"/console/services/{service.id}/rename"))[0]}
    before = len(entries_of(runtime.store))
    visitor.see("/console/services/a123456789/delete", 404)
    assert len(entries_of(runtime.store)) == before
    visitor.client.post("/console/services/a123456789/delete", data=token)
    keys = {"public_key": viewer.public_key, "secret_key": secret.reveal()}
    visitor.client.post("/console/sign-in", data=keys)
    visitor.see(f"/console/services/{service.id}/rename", 403)
    token = {"_token": _TOKEN.findall(visitor.see("/console/"))[0]}
    visitor.client.post(f"/console/services/{service.id}/pause", data=token)
    found = [(one.verb, one.outcome, one.code) for one in entries_of(runtime.store)[before:]]
    assert [one for one in found if one[0] != "signIn"] == [
        ("deleteService", "refused", "SERVICE_NOT_FOUND"),
        ("stopService", "refused", "FORBIDDEN"),
    ]


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
