"""Importing a database in the console: the form, its check, and its refusal."""

from ramet.backends.interface.sources import Destination
from ramet.backends.memory.backend import MemoryBackend
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


def test_a_refused_import_says_why_and_forgets_the_password(visitor: Visitor) -> None:
    visitor.sign_in()
    backend_of(visitor).sources.destination = Destination(18, 18, 2**40, missing_extensions=("postgis",))
    answer = visitor.send("/console/import", **FIELDS, action="import")
    assert answer.status_code == 422
    assert "postgis" in answer.text
    assert FIELDS["url"] in answer.text
    wrong = visitor.send("/console/import", **{**FIELDS, "password": "geheim"}, action="check")
    assert (wrong.status_code, "could not be examined" in wrong.text, "geheim" in wrong.text) == (422, True, False)
