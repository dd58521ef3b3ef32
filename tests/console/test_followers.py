"""Following a database in the console: the form, its check, its refusal, the lag and the problem, and the promotion."""

from dataclasses import replace

import pytest

from harness.waiting import eventually
from ramet.control.services import get_service
from ramet.errors import Failed
from ramet.followers.observation import Observing
from ramet.model.procedures import ProcedureName
from ramet.model.status import Status
from ramet.store.operations import of_subject
from tests.console.test_imports import again_of, backend_of
from tests.console.visitor import Visitor

FIELDS = {
    "name": "copy",
    "url": "postgresql://replicator@db.example/shop",
    "password": "source",
    "size": "shared",
    "environment": "DEV",
    "method": "PHYSICAL",
    "slot": "none",
    "archive": "",
}


def test_a_check_shows_the_report_and_makes_nothing(visitor: Visitor) -> None:
    visitor.sign_in()
    answer = visitor.send("/console/follow", **FIELDS, action="check")
    assert answer.status_code == 200
    assert "superusers of the source can run programs" in answer.text
    assert 'value="source"' not in answer.text
    assert "No services yet" in visitor.see("/console/")


def test_a_refused_source_says_why_and_the_form_keeps_what_was_chosen(visitor: Visitor) -> None:
    visitor.sign_in()
    answer = visitor.send("/console/follow", **{**FIELDS, "slot": "own", "archive": "shop"}, action="follow")
    assert answer.status_code == 422
    assert "max_slot_wal_keep_size is unknown" in answer.text
    assert "RAMET_SOURCE_ARCHIVES" in answer.text
    assert 'value="own" checked' in answer.text
    logical = visitor.send("/console/follow", **{**FIELDS, "method": "LOGICAL", "slot": "own"}, action="follow")
    assert (logical.status_code, "PHYSICAL only" in logical.text) == (422, True)


def test_a_service_that_could_not_follow_is_made_again_with_the_same_values(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Failed("COPY_FAILED", "The source went away")

    visitor.sign_in()
    backend = backend_of(visitor)
    backend.followers.archives = ("shop",)
    monkeypatch.setattr(backend.followers, "fetch", refuse)
    assert visitor.send("/console/follow", **{**FIELDS, "archive": "shop"}, action="follow").status_code == 200
    eventually(lambda: visitor.named("copy").failed_at is not None)
    form = visitor.see(again_of(visitor.see(f"/console/services/{visitor.named('copy').id}")))
    for text in (FIELDS["url"].replace("/shop", ":5432/shop"), 'value="PHYSICAL" checked', 'value="shop"'):
        assert text in form


def test_the_page_of_a_follower_shows_its_lag_its_problem_and_promotes_it(visitor: Visitor) -> None:
    visitor.sign_in()
    followers = backend_of(visitor).followers
    followers.facts = replace(followers.facts, settings={**followers.facts.settings, "max_slot_wal_keep_size": "1024"})
    answer = visitor.send("/console/follow", **{**FIELDS, "slot": "own"}, action="follow")
    assert (answer.status_code, "sslmode=require" in answer.text) == (200, True)
    service = visitor.settled("copy")
    base = f"/console/services/{service.id}"
    assert "0 B and 0.0 s behind" in visitor.see(base)
    followers.problem = "The source cannot be reached. It follows again by itself."
    Observing(visitor.world.runtime.plane).observe_standbys()
    assert followers.problem in visitor.see(base)
    followers.problem = None
    refused = visitor.send(f"{base}/promote", until="now", lsn="here", neutralize="no")
    assert (refused.status_code, "wait_for_lsn must be of the form" in refused.text) == (422, True)
    visitor.send(f"{base}/promote", until="now", lsn="", neutralize="no")
    promoted = visitor.settled("copy")
    assert (promoted.upstream, Status.READY in visitor.see("/console/")) == (None, True)
    assert "follows no source" in visitor.see(f"{base}/promote")


@pytest.mark.parametrize(("until", "neutralize"), [("drain", "yes"), ("now", "no")])
def test_a_promotion_waits_for_and_neutralizes_what_its_form_says(
    visitor: Visitor, until: str, neutralize: str
) -> None:
    visitor.sign_in()
    followers = backend_of(visitor).followers
    assert visitor.send("/console/follow", **FIELDS, action="follow").status_code == 200
    service = visitor.settled("copy")
    visitor.send(f"/console/services/{service.id}/promote", until=until, lsn="", neutralize=neutralize)
    with visitor.world.runtime.store.read() as tx:
        promotion = next(one for one in of_subject(tx, service.id) if one.procedure == ProcedureName.PROMOTE)
    assert promotion.state["drain"] is (until == "drain")
    followers.is_down = until == "drain"
    promoted = visitor.settled("copy")
    assert promoted.upstream is None
    report = get_service(visitor.world.runtime.plane, service.project_id, service.id).report or {}
    assert report["promoted"]["neutralize"] is (neutralize == "yes")
