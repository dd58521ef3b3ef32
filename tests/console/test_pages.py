"""The pages as a browser without scripts sees them."""

import html
import re
from datetime import timedelta
from urllib.parse import urlencode

import pytest

from harness.waiting import eventually
from ramet.console.auth.csrf import CSRF_FIELD
from ramet.console.pages.service_changes import CHANGES
from ramet.control.archive import set_archive
from ramet.control.duties.archive import OffHostArchive
from ramet.control.plane import utc_now
from ramet.control.restore import list_snapshots
from ramet.control.services import list_services
from ramet.model.environment import Environment
from ramet.model.service import status_of
from ramet.model.status import Status
from ramet.model.timestamps import rfc3339
from ramet.store.tables import snapshot
from tests.console.visitor import Visitor

_LIMIT_BYTES = 150_000
_HIDDEN = re.compile(r'<input type="hidden" name="(_token|key)" value="([^"]+)"')


def _pages(service_id: str) -> list[str]:
    base = f"/console/services/{service_id}"
    verbs = ("", "/snapshots", "/operations", "/fork", "/upgrades", *(f"/{verb}" for verb in CHANGES))
    more = (
        "/console/",
        "/console/new",
        "/console/import",
        "/console/follow",
        "/console/lineage",
        "/console/overview",
        "/console/notifications",
        "/console/help",
        f"{base}/metrics",
        f"{base}/logs",
    )
    return [*more, *(base + verb for verb in verbs)]


def test_every_page_answers_head_requests(visitor: Visitor) -> None:
    for path in ("/console/sign-in", "/"):
        seen, asked = visitor.client.get(path), visitor.client.head(path)
        assert (asked.status_code, asked.content) == (seen.status_code, b"")
    visitor.sign_in()
    service = visitor.ready()
    for path in _pages(service.id):
        assert visitor.client.head(path).status_code == 200, path
    link = visitor.link
    assert visitor.client.head(link).status_code == 405
    assert visitor.client.get(link).status_code == 200


def test_requests_that_match_no_route_get_an_error_page(visitor: Visitor) -> None:
    visitor.sign_in()
    for path in ("/console/services/a/replicas/b/c/d", "/console/services/a/b/c", "/console/static/x", "/nowhere"):
        answer = visitor.client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8"), path
        assert "There is no page at this address" in answer.text
    wrong = visitor.client.delete("/console/sign-in")
    assert (wrong.status_code, "GET" in wrong.headers["allow"]) == (405, True)
    assert wrong.headers["content-type"].startswith("text/html")
    large = visitor.client.post("/console/new", data={"name": "x" * 66_000})
    assert (large.status_code, "The form is larger than 64 KiB" in large.text) == (413, True)
    missing = visitor.client.get("/public/api/v1/nowhere")
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")


def test_form_errors_name_the_fields_of_the_form(visitor: Visitor) -> None:
    visitor.sign_in()
    base = f"/console/services/{visitor.ready().id}"
    ahead = (utc_now() + timedelta(days=1)).isoformat()
    for fields in ({"target_time": ""}, {"target_time": ahead}, {"target_time": "soon"}, {"name": " "}):
        answer = visitor.send(f"{base}/fork", **{"strategy": "PITR", "name": "x", **fields})
        assert answer.status_code == 422
        said = re.findall(r'class="wrong"[^>]*>(.*?)</span>', answer.text)
        assert said, fields
        assert not re.search(r"[a-z]_[a-z]|PITR|Send ", said[0]), said
    assert "target_time" not in visitor.see(f"{base}/fork/plan?strategy=PITR").replace('name="target_time"', "")


def test_an_unknown_strategy_selects_now(visitor: Visitor) -> None:
    visitor.sign_in()
    page = visitor.see(f"/console/services/{visitor.ready().id}/fork?strategy=XX")
    assert re.search(r'value="NOW" checked', page)


def test_another_period_of_the_timeline_keeps_chosen_values(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    with visitor.world.runtime.store.write() as tx:
        age = timedelta(days=2)
        tx.execute(snapshot.update().values(taken_at=utc_now() - age))
    first = list_snapshots(visitor.world.runtime.plane, service.project_id, service.id)[0]
    asked = {"name": "back & then", "environment": "PROD", "size": "500/2", "snapshot_id": first.id, "count": "5"}
    path = f"/console/services/{service.id}/fork"
    links = re.findall(r'data-span href="([^"]+)"', visitor.see(f"{path}?{urlencode(asked)}"))
    assert len(links) > 1
    for link in links:
        page = visitor.see(path + html.unescape(link))
        assert re.search(r'value="LAST_SNAPSHOT" checked', page)
        assert f'name="snapshot_id" value="{first.id}"' in page
        assert 'value="back &amp; then"' in page
        assert 'name="count" value="5"' in page
        assert re.search(r'value="PROD" selected', page)
        assert re.search(r'value="500/2" selected', page)


def test_times_are_marked_as_utc_without_scripts(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    for path in (f"/console/services/{service.id}", f"/console/services/{service.id}/fork", "/console/lineage"):
        times = re.findall(r"<time [^>]*>([^<]+)<", visitor.see(path))
        assert times
        assert all(text.endswith((" UTC", " ago")) for text in times), times


def test_every_page_has_a_strict_csp_no_inline_code_and_little_weight(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    for path in _pages(service.id):
        answer = visitor.client.get(path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:", answer.text), path
        assert not re.search(r'(src|href|action)="(https?:)?//', answer.text), path
        files = set(re.findall(r'(?:src|href)="(/console/static/[^"]+)"', answer.text))
        total = len(answer.content) + sum(len(visitor.client.get(file).content) for file in files)
        assert total < _LIMIT_BYTES, (path, total)


def test_pages_are_compressed_and_streams_are_not(visitor: Visitor) -> None:
    visitor.sign_in()
    plain = visitor.client.get("/console/help", headers={"Accept-Encoding": "identity"})
    packed = visitor.client.get("/console/help", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == plain.text
    assert int(packed.headers["content-length"]) < len(plain.content) / 2
    assert "accept-encoding" in packed.headers["vary"].lower()
    with visitor.client.stream("GET", "/console/events", headers={"Accept-Encoding": "gzip"}) as stream:
        assert "content-encoding" not in stream.headers
        assert next(stream.iter_lines()) == "event: hello"


def test_a_page_gets_no_stream_beyond_the_connections_of_its_project(visitor: Visitor) -> None:
    visitor.sign_in()
    held, project_id = visitor.world.runtime.plane.held, visitor.world.project.id
    while held.acquire(project_id):
        pass
    assert "streams and waiting requests" in visitor.see("/console/events", 503)
    held._taken.clear()
    with visitor.client.stream("GET", "/console/events") as stream:
        lines = stream.iter_lines()  # its end would close the connection
        assert next(lines) == "event: hello"
        assert held._taken[project_id] == 1
    visitor.client.close()  # whose connection goes, too
    eventually(lambda: not held._taken)


def test_browsers_cache_static_files_until_their_content_changes(visitor: Visitor) -> None:
    page = visitor.client.get("/console/sign-in").text
    for name, kind in (("console.css", "text/css"), ("console.js", "javascript"), ("ramet.svg", "image/svg+xml")):
        path = re.findall(rf'"(/console/static/[^"]+/{name})"', page)[0]
        for found in (visitor.client.get(path), visitor.client.head(path)):
            assert found.status_code == 200
            assert {"public", "immutable", "max-age=31536000"} <= set(found.headers["cache-control"].split(", "))
        assert kind in visitor.client.get(path).headers["content-type"]
        for digest in ("c", "0" * 12, path.split("/")[3][:-1]):
            other = visitor.client.get(f"/console/static/{digest}/{name}")
            assert (other.status_code, other.headers["location"]) == (307, path)
            assert other.headers["cache-control"] == "no-store"
    current = path.rpartition("/")[0]
    for missing in (f"{current}/secrets.txt", f"{current}/../../application.py", "/console/static/0/secrets.txt"):
        assert visitor.client.get(missing).status_code == 404


def test_names_are_escaped(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready('<img src=x onerror="alert(1)">')
    for path in _pages(service.id):
        assert "<img src=x" not in visitor.see(path)


def test_the_password_is_shown_once_and_the_form_makes_one_service(visitor: Visitor) -> None:
    visitor.sign_in()
    page = visitor.see("/console/new")
    key = re.findall(r'name="key" value="([^"]+)"', page)[0]
    token = re.findall(rf'name="{CSRF_FIELD}" value="([^"]+)"', page)[0]
    fields = {
        CSRF_FIELD: token,
        "key": key,
        "name": "shop",
        "service_type": "POSTGRES",
        "size": "shared",
        "environment": "DEV",
    }
    first, second = (visitor.client.post("/console/new", data=fields) for _ in range(2))
    password = re.findall(r'id="password"[^>]*>([^<]+)<', first.text)[0]
    assert re.findall(r'id="password"[^>]*>([^<]+)<', second.text) == [password]
    assert len(list_services(visitor.world.runtime.plane, visitor.world.project.id)) == 1
    service = visitor.settled("shop")
    assert password not in visitor.see(f"/console/services/{service.id}")


def test_a_form_that_was_changed_after_it_was_sent_can_be_sent_again(visitor: Visitor) -> None:
    visitor.sign_in()
    fields = {"name": "shop", "service_type": "POSTGRES", "size": "shared", "environment": "DEV"}
    hidden = dict(_HIDDEN.findall(visitor.see("/console/new")))
    assert visitor.client.post("/console/new", data={**hidden, **fields}).status_code == 200
    refused = visitor.client.post("/console/new", data={**hidden, **fields, "name": "store"})
    assert refused.status_code == 422
    assert "This form was sent before with other values" in refused.text
    again = dict(_HIDDEN.findall(refused.text))
    assert again["key"] != hidden["key"]
    assert visitor.client.post("/console/new", data={**again, **fields, "name": "store"}).status_code == 200
    made = list_services(visitor.world.runtime.plane, visitor.world.project.id)
    assert [one.name for one in made] == ["shop", "store"]


def test_an_error_is_shown_at_its_field_and_typed_values_are_kept(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    path = f"/console/services/{service.id}/fork"
    answer = visitor.send(path, strategy="PITR", target_time="2020-01-01T00:00:00Z", name="back-then")
    assert answer.status_code == 422
    assert re.search(
        r'id="target_time"[^>]*aria-invalid="true" aria-describedby="wrong-target_time target-hint"', answer.text
    )
    assert re.search(r'id="wrong-target_time">The target time <time datetime="2020-01-01T00:00:00\.0{6}Z"', answer.text)
    assert 'value="back-then"' in answer.text


def test_an_invalid_time_is_shown_as_typed(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    typed = "2026-99-99T99:99:99.000000Z"
    answer = visitor.send(f"/console/services/{service.id}/fork", strategy="PITR", target_time=typed)
    assert answer.status_code == 422
    assert f"{typed}" in re.findall(r'id="wrong-target_time">([^<]*)<', answer.text)[0]


def test_a_preview_describes_the_fork(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    preview = f"/console/services/{service.id}/fork/plan"
    assert "when you submit this form" in visitor.see(f"{preview}?strategy=NOW&environment=DEV")
    restore_time = (utc_now() - timedelta(milliseconds=1)).isoformat().replace("+00:00", "Z")
    assert "READY in about" in visitor.see(f"{preview}?strategy=PITR&target_time={restore_time}")
    assert "is before" in visitor.see(f"{preview}?strategy=PITR&target_time=2020-01-01T00:00:00Z")
    assert len(list_services(visitor.world.runtime.plane, visitor.world.project.id)) == 1


def test_a_preview_of_a_time_in_the_archive_says_what_is_downloaded(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor.sign_in()
    service, plane = visitor.ready(), visitor.world.runtime.plane
    monkeypatch.setattr(visitor.world.backend.archive, "location", "s3://bucket")
    set_archive(plane, service.project_id, service.id, True)
    OffHostArchive(plane).maintain()
    with plane.store.write() as tx:
        tx.execute(snapshot.delete().where(snapshot.c.service_id == service.id))
    until = visitor.named("shop").archived_until
    assert until is not None
    preview = f"/console/services/{service.id}/fork/plan?strategy=PITR&target_time={rfc3339(until)}"
    assert "from the off-host archive (base backup" in visitor.see(preview)


def test_deletion_and_disruptive_changes_of_prod_require_the_name(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    base = f"/console/services/{service.id}"
    assert visitor.send(f"{base}/delete", confirmation="sho").status_code == 422
    assert visitor.send(f"{base}/environment", environment="PROD").status_code == 303
    assert visitor.named("shop").environment is Environment.PROD
    assert visitor.send(f"{base}/pause").status_code == 422
    assert visitor.send(f"{base}/pause", confirmation="shop").status_code == 303
    eventually(lambda: status_of(visitor.named("shop")) is Status.PAUSED)
    assert visitor.send(f"{base}/resume").status_code == 303
    visitor.settled("shop")
    assert visitor.send(f"{base}/delete", confirmation="shop").headers["location"] == "/console/"
    eventually(lambda: visitor.client.get(base).status_code == 404)
    assert "This service has been deleted" in visitor.see(base, 404)


def test_a_change_that_is_not_possible_in_this_status_says_so(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    answer = visitor.send(f"/console/services/{service.id}/resume")
    assert answer.status_code == 409
    assert "shop is not paused" in answer.text
    visitor.send(f"/console/services/{service.id}/pause")
    eventually(lambda: status_of(visitor.named("shop")) is Status.PAUSED)
    page = visitor.see(f"/console/services/{service.id}/pause")
    assert "shop is already paused" in page
    assert f'href="/console/services/{service.id}/resume">Resume</a>' in page
    assert visitor.client.get(f"/console/services/{service.id}/explode").status_code == 404
    assert "There is no page at this address" in visitor.see("/console/nowhere/at/all", 404)


def test_not_found_is_json_for_programs_and_a_page_for_browsers(visitor: Visitor) -> None:
    for path in ("/nowhere", "/console/nowhere", "/public", "/console/services/a/b/c/d"):
        response = visitor.client.get(path, headers={"Accept": "application/json"})
        assert (response.status_code, response.json()["code"]) == (404, "NOT_FOUND")
        seen = visitor.client.get(path, headers={"Accept": "text/html,application/xhtml+xml,application/json;q=0.9"})
        assert (seen.status_code, seen.headers["content-type"].partition(";")[0]) == (404, "text/html")


def test_another_project_sees_nothing(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    projects = visitor.world.runtime.projects
    other = projects.create_project("other", utc_now())
    key, secret = projects.create_key(other.id, "other", utc_now())
    with Visitor(visitor.world) as stranger:
        stranger.client.post("/console/sign-in", data={"public_key": key.public_key, "secret_key": secret.reveal()})
        for path in _pages(service.id):
            if service.id in path:
                assert stranger.client.get(path).status_code == 404
        assert "No services yet" in stranger.see("/console/")
