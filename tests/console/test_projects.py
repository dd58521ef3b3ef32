"""A browser that has signed in to several projects switches between them."""

import re

import pytest

from ramet.control.plane import utc_now
from ramet.model.project import Project
from tests.audited import entries_of
from tests.console.visitor import Visitor


@pytest.fixture
def other(visitor: Visitor) -> Project:
    """Another project, to which the visitor has signed in after the first one."""
    projects, now = visitor.world.runtime.projects, utc_now()
    made = projects.create_project("staging", now)
    key, secret = projects.create_key(made.id, "staging key", now)
    visitor.sign_in()
    visitor.client.post("/console/sign-in", data={"public_key": key.public_key, "secret_key": secret.reveal()})
    return made


def _switch(visitor: Visitor, project_id: str) -> int:
    token = re.findall(r'name="_token" value="([^"]+)"', visitor.see("/console/help"))[0]
    sent = visitor.client.post("/console/projects", data={"_token": token, "project_id": project_id})
    return sent.status_code


def _project(visitor: Visitor) -> str:
    found = re.search(r'<summary aria-label="Project ([^"]+)"', visitor.see("/console/help"))
    assert found is not None
    return found[1]


def test_one_switches_to_a_project_and_back(visitor: Visitor, other: Project) -> None:
    first = visitor.world.project
    assert _project(visitor) == "staging"
    assert "You stay signed in to staging" in visitor.see("/console/sign-in")
    for project in (first, other, first):
        assert _switch(visitor, project.id) == 303
        assert _project(visitor) == project.name
    visitor.ready("only-here")
    assert _switch(visitor, other.id) == 303
    assert "only-here" not in visitor.see("/console/")


def test_the_page_of_a_service_of_another_project_leads_there(visitor: Visitor, other: Project) -> None:
    assert _switch(visitor, visitor.world.project.id) == 303
    shop = visitor.ready("only-here")
    assert _switch(visitor, other.id) == 303
    page = visitor.see(f"/console/services/{shop.id}", 404)
    assert f"Switch to {visitor.world.project.name}" in page
    assert 'aria-label="Project staging"' in page
    assert "Switch to" not in visitor.see("/console/services/absent", 404)


def test_a_project_without_a_session_is_not_opened(visitor: Visitor, other: Project) -> None:
    foreign = visitor.world.runtime.projects.create_project("foreign", utc_now())
    for project_id in (foreign.id, other.id, ""):
        assert _switch(visitor, project_id) == 404
    assert _project(visitor) == "staging"
    assert "foreign" not in visitor.see("/console/help")


def test_signing_in_again_leaves_one_session_of_each_project(visitor: Visitor, other: Project) -> None:
    visitor.sign_in()
    visitor.sign_in()
    assert _project(visitor) == visitor.world.project.name
    assert visitor.see("/console/help").count('name="project_id"') == 1
    assert visitor.client.cookies["ramet_others"].count(".") == 0


def test_signing_out_ends_all_of_them(visitor: Visitor, other: Project) -> None:
    kept = {name: visitor.client.cookies[name] for name in ("ramet_session", "ramet_others")}
    token = re.findall(r'name="_token" value="([^"]+)"', visitor.see("/console/help"))[0]
    assert visitor.client.post("/console/sign-out", data={"_token": token}).status_code == 303
    for value in kept.values():
        visitor.client.cookies.clear()
        assert visitor.client.get("/console/", headers={"Cookie": f"ramet_session={value}"}).status_code == 303


def test_signing_out_ends_the_others_also_when_the_session_in_use_has_ended(visitor: Visitor, other: Project) -> None:
    world, projects = visitor.world, visitor.world.runtime.projects
    kept, (used,) = visitor.client.cookies["ramet_others"], projects.list_keys(other.id)
    projects.revoke_key(used.public_key, utc_now())
    answer = visitor.client.post("/console/sign-out", headers={"X-Request-Id": "sign-out"})
    assert answer.status_code == 303
    assert not {"ramet_session", "ramet_others"} & set(visitor.client.cookies)
    (entry,) = entries_of(world.runtime.store, request_id="sign-out")
    assert (entry.verb, entry.outcome, entry.project_id) == ("logout", "accepted", world.project.id)
    assert visitor.client.get("/console/", headers={"Cookie": f"ramet_session={kept}"}).status_code == 303
    visitor.client.post("/console/sign-out", headers={"X-Request-Id": "again"})
    assert [one.outcome for one in entries_of(world.runtime.store, request_id="again")] == ["refused"]


def test_who_is_led_away_from_an_ended_session_can_sign_out_of_the_others(visitor: Visitor, other: Project) -> None:
    projects, now, form = visitor.world.runtime.projects, utc_now(), 'action="/console/sign-out"'
    assert form not in visitor.see("/console/sign-in")
    (used,) = projects.list_keys(other.id)
    projects.revoke_key(used.public_key, now)
    page = visitor.see("/console/sign-in?ended=yes")
    assert form in page
    assert f"still signed in to {visitor.world.project.name}" in page
    assert visitor.client.post("/console/sign-out").status_code == 303
    assert form not in visitor.see("/console/sign-in")
    key, secret = projects.create_key(projects.create_project("next", now).id, "next", now)
    visitor.client.post("/console/sign-in", data={"public_key": key.public_key, "secret_key": secret.reveal()})
    assert _project(visitor) == "next"
    assert 'name="project_id"' not in visitor.see("/console/help")


def test_a_revoked_key_disappears_from_the_menu(visitor: Visitor, other: Project) -> None:
    visitor.world.runtime.projects.revoke_key(visitor.world.public_key, utc_now())
    assert 'name="project_id"' not in visitor.see("/console/help")
    assert _switch(visitor, visitor.world.project.id) == 404


def test_forged_tokens_open_nothing(visitor: Visitor) -> None:
    visitor.sign_in()
    session = visitor.client.cookies["ramet_session"]
    visitor.client.cookies.clear()
    sent = {"Cookie": f"ramet_session={session}; ramet_others={'.'.join(['x' * 43] * 50)}"}
    assert 'name="project_id"' not in visitor.client.get("/console/help", headers=sent).text
