"""The audit over HTTP: who did what, and how it ended."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ramet.api.schemas.shared import Body
from ramet.audit.anchor import Anchor, Anchors
from ramet.audit.recorder import AuditRecorder
from ramet.audit.verbs import remove_old_entries
from ramet.audit.verification import verify
from ramet.configured import anchors_of
from ramet.control.duties.life_spans import LifeSpans
from ramet.control.recording import Recording, RefusalLimit, client_address
from ramet.endpoints import BASE_PATH
from ramet.errors import Failed, Unavailable
from ramet.model.audit import REMOVAL, Entry, chain_key
from ramet.operations.schedule import Duty, Schedule
from ramet.redaction import shown_fields
from ramet.settings import load_settings
from ramet.store import audit
from tests.api.world import World, bodies, open_world
from tests.audited import entries_of

INTERFACE = Path(__file__).parents[2] / "openapi.json"
KEY = chain_key(b"k" * 32)
SENTINEL = "hunter2-sentinel"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield from open_world(tmp_path)


def changing_routes() -> list[tuple[str, str, str]]:
    """Return method, path and operation id of everything that is no GET, but for what changes nothing."""
    paths = json.loads(INTERFACE.read_text())["paths"]
    known = [(m.upper(), path, one["operationId"]) for path, methods in paths.items() for m, one in methods.items()]
    unrecorded = ("getServiceMetricsSeries", "logout", "identifyUser", "trackEvent")
    return [one for one in known if one[0] != "GET" and one[2] not in unrecorded]


def test_every_changing_route_leaves_an_entry(world: World) -> None:
    world.client.app.recording.limit.__init__()
    for method, path, operation in changing_routes():
        for name in ("service_id", "replica_set_id", "snapshot_id", "restore_id"):
            path = path.replace(f"{{{name}}}", "a123456789")
        path = BASE_PATH + path.replace("{project_id}", world.tenant.project.id).replace("{vpc_id}", "1")
        path = path.replace("{peering_id}", "1")
        answer = world.client.request(method, path, auth=world.tenant.credentials, headers={"X-Request-Id": operation})
        (entry,) = entries_of(world.store, request_id=operation)
        assert (entry.verb, entry.actor.id) == (operation, world.tenant.key.public_key), answer.text
        assert entry.outcome == ("refused" if answer.status_code >= 400 else "accepted"), answer.text


def test_a_fork_is_recorded_with_who_and_where_and_what(world: World) -> None:
    parent = world.ready()
    fork = world.fork(parent, name="preview")
    entry = entries_of(world.store, verb="forkService")[-1]
    operation = world.get(world.path(fork["service_id"], "operations")).json()["operations"][0]
    assert entry.actor.name == world.tenant.key.name
    assert (entry.via, entry.address, entry.outcome) == ("api", "testclient", "accepted")
    assert (entry.project_id, entry.subject) == (world.tenant.project.id, parent["service_id"])
    assert entry.fields["new_service_ids"] == [fork["service_id"]]
    assert (entry.fields["name"], entry.fields["fork_strategy"]) == ("preview", "NOW")
    assert entry.operation_id == operation["id"]
    assert operation["actor"] == {"kind": "key", "id": entry.actor.id, "name": entry.actor.name}


def test_what_a_procedure_submits_has_the_actor_of_its_operation(world: World) -> None:
    fork = world.fork(world.ready())
    world.work()
    found = world.get(world.path(fork["service_id"], "operations") + "?all=true").json()["operations"]
    assert {one["actor"]["id"] for one in found} == {world.tenant.key.public_key}


def test_no_secret_is_recorded(world: World) -> None:
    service = world.ready()
    world.post(world.path(service["service_id"], "updatePassword"), {"password": SENTINEL})
    source = {"source_url": f"postgresql://u:{SENTINEL}@h/d?password={SENTINEL}", "source_password": SENTINEL}
    world.post(f"{BASE_PATH}/projects/{world.tenant.project.id}/imports", {"name": "copy", **source})
    world.client.post(world.services_path, auth=("RKAAAAAAAAAAAAAAAAAA", SENTINEL), json={"name": "x"})
    recorded = repr(entries_of(world.store))
    assert SENTINEL not in recorded
    assert "'password': '***'" in recorded


def test_what_takes_effect_in_the_server_is_recorded_before_and_after(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.path(world.ready()["service_id"], "updatePassword")
    world.post(path, {"password": "x"}, headers={"X-Request-Id": "good"})
    assert [one.outcome for one in entries_of(world.store, request_id="good")] == ["started", "accepted"]

    def fail(*_: object) -> None:
        raise Unavailable("SERVER_DOWN", "The server is down")

    monkeypatch.setattr(world.backend.servers, "set_password", fail)
    world.post(path, {"password": "x"}, headers={"X-Request-Id": "bad"})
    found = entries_of(world.store, request_id="bad")
    assert [(one.outcome, one.code) for one in found] == [("started", None), ("failed", "SERVER_DOWN")]


def test_an_entry_and_its_change_are_both_there_or_neither_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    service = world.ready()

    def fail(*_: object) -> None:
        raise Failed("NO_AUDIT", "No entry can be written")

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "recorders", [fail])
        world.post(world.path(service["service_id"], "rename"), {"name": "other"})
    assert world.look(service)["name"] == service["name"]


@pytest.mark.parametrize(
    ("sent", "kept"), [("build-7/step.2", True), ("a" * 200, False), ("two words", False), ("", False), ("é", False)]
)
def test_a_sane_request_id_is_kept_and_answered(world: World, sent: str, kept: bool) -> None:
    answer = world.client.get(BASE_PATH + "/projects", headers=[(b"X-Request-Id", sent.encode())])
    assert (answer.headers["x-request-id"] == sent) is kept
    assert answer.headers["x-request-id"]


def test_refusals_are_recorded_with_their_code_and_their_client(world: World) -> None:
    other = world.new_tenant("other")
    world.client.post(world.services_path, json={"name": "x"})
    world.client.post(world.services_path, auth=(other.key.public_key, "wrong"), json={"name": "x"})
    world.client.post(world.services_path, auth=other.credentials, json={"name": "x"})
    world.post(world.services_path, {"name": ""})
    nobody, wrong, foreign, invalid = entries_of(world.store, verb="createService")
    assert (nobody.code, nobody.actor.kind, nobody.project_id) == ("UNAUTHORIZED", "unknown", world.tenant.project.id)
    assert (wrong.code, wrong.actor.kind) == ("UNAUTHORIZED", "unknown")
    assert wrong.fields["public_key"] == other.key.public_key
    assert (foreign.code, foreign.actor.id) == ("FORBIDDEN", other.key.public_key)
    assert foreign.project_id == other.project.id
    assert (invalid.code, invalid.outcome) == ("INVALID_NAME", "refused")


def test_a_flood_of_refusals_is_counted_and_not_recorded() -> None:
    now = [0.0]
    limit = RefusalLimit(burst=3, every_seconds=60, burst_of_all=5, every_seconds_of_all=10, clock=lambda: now[0])
    assert [limit.admit("a") for _ in range(5)] == [0, 0, 0, None, None]
    assert [limit.admit("b") for _ in range(4)] == [2, 0, None, None]
    now[0] = 60.0
    assert [limit.admit("a") for _ in range(2)] == [2, None]


def test_a_refused_request_of_a_flood_leaves_no_entry(world: World) -> None:
    world.client.app.recording.limit.__init__(burst=1)
    for _ in range(3):
        world.post(world.services_path, {"name": ""})
    assert len(entries_of(world.store, verb="createService")) == 1
    world.client.app.recording.limit.__init__()


def test_what_a_duty_begins_is_recorded_as_ramets_own(world: World) -> None:
    service = world.ready(ttl_seconds=60)
    world.advance(timedelta(hours=2))
    spans = LifeSpans(world.plane, world.clock)
    schedule = Schedule(world.store, [Duty("life spans", 0.0, spans.tend)])
    schedule.perform_due()
    world.advance(timedelta(hours=2))
    schedule.perform_due()
    (entry,) = entries_of(world.store, verb="delete")
    assert (str(entry.actor), entry.subject) == ("Ramet itself: duty life spans", service["service_id"])
    assert entry.project_id == world.tenant.project.id
    deletion = world.get(world.path(service["service_id"], "operations")).json()["operations"][0]
    assert deletion["actor"] == {"kind": "ramet", "id": "duty life spans"}


def test_the_list_has_filters_and_pages_and_only_the_own_project(world: World) -> None:
    service = world.ready()
    for name in ("a", "b", "c"):
        world.post(world.path(service["service_id"], "rename"), {"name": name})
    path = f"{BASE_PATH}/projects/{world.tenant.project.id}/audit"
    first = world.get(path + "?verb=renameService&limit=2").json()
    assert [one["fields"]["name"] for one in first["entries"]] == ["c", "b"]
    rest = world.get(path + f"?verb=renameService&limit=2&cursor={first['last_cursor']}").json()
    assert [one["fields"]["name"] for one in rest["entries"]] == ["a"]
    assert "last_cursor" not in rest
    assert world.get(path + "?actor=nobody").json() == {"entries": []}
    assert len(world.get(path + f"?actor={world.tenant.key.public_key}").json()["entries"]) == 4
    assert world.get(path + "?since=2999-01-01T00:00:00Z").json() == {"entries": []}
    assert world.get(path + "?limit=0").json()["code"] == "INVALID_LIMIT"
    assert world.get(path + "?cursor=x").json()["code"] == "INVALID_CURSOR"
    assert world.get(path + "?since=yesterday").status_code == 400
    other = world.new_tenant("other")
    theirs = world.client.get(path.replace(world.tenant.project.id, other.project.id), auth=other.credentials)
    assert theirs.json() == {"entries": []}


def _entries(world: World) -> list[Entry]:
    with world.store.read() as tx:
        return list(audit.walk(tx))


def test_a_changed_or_removed_or_forged_entry_shows(world: World) -> None:
    for _ in range(4):
        world.create()
    entries = _entries(world)
    assert verify(entries, KEY).problems == []
    changed = [*entries[:1], replace(entries[1], verb="deleteService"), *entries[2:]]
    assert "Entry 2 was changed" in verify(changed, KEY).problems[0]
    assert verify([*entries[:1], *entries[2:]], KEY).problems == ["Entries are missing between 1 and 3."]
    assert "Entries before 2 are missing" in verify(entries[1:], KEY).problems[0]
    assert verify(entries, b"another key").problems != []


def test_entries_that_are_missing_at_the_end_show_by_the_file_beside_the_store(world: World, tmp_path: Path) -> None:
    anchors = Anchors(tmp_path / "audit.anchors", nullcontext)
    for _ in range(3):
        world.create()
        anchors.note(world.store)
    entries = _entries(world)
    assert verify(entries, KEY, anchors.read()).problems == []
    assert "Entry 3" in verify(entries[:2], KEY, anchors.read()).problems[0]
    assert "another one" in verify(entries, KEY, [Anchor(2, "0" * 64)]).problems[0]


def test_processes_that_note_at_once_keep_each_others_anchors(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anchors, read = anchors_of(load_settings({"RAMET_DATA_DIR": str(tmp_path)})), Anchors.read
    other = threading.Thread(target=anchors.note, args=(world.store,))

    def read_beside_another(self: Anchors) -> list[Anchor]:
        found = read(self)
        if other.ident is None:
            world.create()
            other.start()
            other.join(0.3)  # with the lock, it ends after this one
        return found

    monkeypatch.setattr(Anchors, "read", read_beside_another)
    world.create()
    anchors.note(world.store)
    other.join()
    assert [one.sequence for one in read(anchors)] == [1, 2]


@pytest.mark.parametrize(("at_once", "batches"), [(500, 1), (2, 2)])
def test_after_old_entries_are_removed_the_rest_can_still_be_verified(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int, batches: int
) -> None:
    monkeypatch.setattr("ramet.store.batches._AT_ONCE", at_once)
    for _ in range(3):
        world.create()
    world.advance(timedelta(days=30))
    world.create()
    recorder = AuditRecorder(KEY, world.clock)
    assert remove_old_entries(world.store, recorder, world.clock(), timedelta(days=7)) == 3
    assert remove_old_entries(world.store, recorder, world.clock(), timedelta(days=7)) == 0
    entries = _entries(world)
    assert [one.verb for one in entries] == ["createService", *[REMOVAL] * batches]
    assert verify(entries, KEY).problems == []
    world.create()
    assert verify(_entries(world)[1:], KEY).problems != []


def test_the_address_behind_a_proxy_is_believed_only_from_a_trusted_one() -> None:
    trusted = [ip_network("10.0.0.0/8"), ip_network("::1")]
    peer = ("10.0.0.1", 1)
    assert client_address(peer, b"6.6.6.6, 203.0.113.9", trusted) == "203.0.113.9"
    assert client_address(peer, b"203.0.113.9, 10.0.0.7", trusted) == "203.0.113.9"
    assert client_address(("::ffff:10.0.0.1", 1), b"203.0.113.9", trusted) == "203.0.113.9"
    assert client_address(("198.51.100.1", 1), b"203.0.113.9", trusted) == "198.51.100.1"
    assert client_address(peer, b"nonsense", trusted) == "10.0.0.1"
    assert client_address(peer, b"", ()) == "10.0.0.1"
    assert client_address(None, b"203.0.113.9", trusted) is None


@pytest.mark.parametrize(("peer", "scheme"), [("127.0.0.1", "https"), ("10.0.0.1", "https"), ("198.51.100.1", "http")])
def test_that_the_client_came_by_https_is_believed_of_proxies_and_of_this_host(peer: str, scheme: str) -> None:
    seen: list[str] = []

    async def application(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["scheme"])

    recording: Any = Recording(None, "/public", [ip_network("10.0.0.0/8")])  # type: ignore[arg-type]
    headers = [(b"x-forwarded-proto", b"https")]
    scope = {"headers": headers, "client": (peer, 1), "path": "/console/", "scheme": "http"}
    asyncio.run(recording.record(application, scope, None, None))
    assert seen == [scheme]


@pytest.mark.parametrize("body", [one for one in bodies() if one.__struct_fields__], ids=lambda one: one.__name__)
def test_every_field_that_is_documented_as_a_password_is_masked(body: type[Body]) -> None:
    schema = msgspec.json.schema_components([body])[1][body.__name__]["properties"]
    for name, described in schema.items():
        parts = [described, *described.get("anyOf", ())]
        if any(part.get("format") == "password" for part in parts):
            assert shown_fields({name: SENTINEL}) == {name: "***"}


def test_what_no_store_can_keep_is_recorded_as_what_can(world: World) -> None:
    path = f"{world.services_path}/a%00b%ff{'c' * 300}/rename"
    assert world.post(path, {"name": "x"}, headers={"X-Request-Id": "odd"}).status_code == 404
    (entry,) = entries_of(world.store, request_id="odd")
    assert entry.subject is not None
    assert "\0" not in entry.subject
    assert len(entry.subject) == 200
    assert verify(_entries(world), KEY).problems == []
