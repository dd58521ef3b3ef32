"""Importing a database in the console: the form, its check, and its refusal."""

import html
import re

from harness.waiting import eventually
from ramet.backends.interface.sources import Destination
from ramet.backends.memory.backend import MemoryBackend
from ramet.errors import Failed
from ramet.model.status import Status
from tests.console.visitor import Visitor

FIELDS = {
    "name": "copy",
    "url": "postgresql://app@db.example/shop",
    "password": "source",
    "size": "shared",
    "environment": "DEV",
    "owners": "keep",
}


def backend_of(visitor: Visitor) -> MemoryBackend:
    backend = visitor.world.runtime.backend
    assert isinstance(backend, MemoryBackend)
    return backend


def test_a_check_shows_the_report_and_makes_nothing(visitor: Visitor) -> None:
    visitor.sign_in()
    answer = visitor.send("/console/import", **FIELDS, action="check")
    assert answer.status_code == 200
    assert "what postgres owns will belong to tsdbadmin" in answer.text
    assert 'value="source"' not in answer.text
    assert "No services yet" in visitor.see("/console/")


def test_an_import_leads_to_the_page_with_the_password(visitor: Visitor) -> None:
    visitor.sign_in()
    answer = visitor.send("/console/import", **FIELDS, action="import")
    assert answer.status_code == 200
    assert "sslmode=require" in answer.text
    assert visitor.settled("copy").down_reason is None
    assert Status.READY in visitor.see("/console/")


def test_a_failed_import_is_made_again_with_the_same_values(visitor: Visitor) -> None:
    visitor.sign_in()
    backend_of(visitor).sources.fault = Failed("COPY_FAILED", "The source went away")
    asked = {**FIELDS, "name": "away", "owners": "admin", "size": "500/2", "version": "18"}
    assert visitor.send("/console/import", **asked, action="import").status_code == 200
    eventually(lambda: visitor.named("away").failed_at is not None)
    form = visitor.see(again_of(visitor.see(f"/console/services/{visitor.named('away').id}")))
    for text in (
        FIELDS["url"].replace("/shop", ":5432/shop"),
        'value="admin" checked',
        '"500/2" selected',
        '"18" selected',
    ):
        assert text in form
    assert FIELDS["password"] not in re.findall('value="([^"]*)"', form)


def again_of(shown: str) -> str:
    (again,) = re.findall(r'href="([^"]+)">Create it again', shown)
    return html.unescape(str(again))


def test_a_refused_import_says_why_and_forgets_the_password(visitor: Visitor) -> None:
    visitor.sign_in()
    backend_of(visitor).sources.destination = Destination(18, 18, 2**40, missing_extensions=("postgis",))
    answer = visitor.send("/console/import", **FIELDS, action="import")
    assert answer.status_code == 422
    assert "postgis" in answer.text
    assert FIELDS["url"] in answer.text
    wrong = visitor.send("/console/import", **{**FIELDS, "password": "geheim"}, action="check")
    assert (wrong.status_code, "could not be examined" in wrong.text, "geheim" in wrong.text) == (422, True, False)
