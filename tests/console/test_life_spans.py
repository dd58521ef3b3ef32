"""Life spans, protection, labels and several forks in the console."""

import html
import re

from harness.waiting import eventually
from ramet.control.life_spans import extend_service
from ramet.control.services import list_services
from ramet.control.sleep import submit_sleep
from ramet.model.life_span import LifeTerms
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from ramet.store import services
from tests.console.visitor import Visitor


def base(service: Service) -> str:
    return f"/console/services/{service.id}"


def test_a_life_span_is_set_shown_and_removed(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    assert visitor.send(f"{base(service)}/extend", ttl="2", idle_ttl="0.5").status_code == 303
    span = visitor.named("shop").life_span
    assert span is not None
    assert (span.ttl_seconds, span.idle_ttl_seconds) == (7200, 1800)
    assert 'value="0.5"' in visitor.see(f"{base(service)}/extend")
    assert visitor.send(f"{base(service)}/extend", ttl="", idle_ttl="").status_code == 303
    assert visitor.named("shop").life_span is None


def test_a_duration_that_cannot_be_is_shown_at_its_field(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    for wrong in ("soon", "-1", "0", "1e300", "nan"):
        answer = visitor.send(f"{base(service)}/extend", ttl=wrong, idle_ttl="")
        assert answer.status_code == 422
        assert 'id="wrong-ttl"' in answer.text


def test_sleep_is_set_shown_and_removed(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    assert "stays awake" in visitor.see(base(service))
    assert visitor.send(f"{base(service)}/sleep", sleep_after="0.25").status_code == 303
    eventually(lambda: visitor.named("shop").activity is None)
    assert visitor.named("shop").sleep_after_seconds == 900
    assert 'value="0.25"' in visitor.see(f"{base(service)}/sleep")
    plane = visitor.world.runtime.plane
    eventually(lambda: submit_sleep(plane, service.id))  # its first snapshot may hold it
    eventually(lambda: visitor.named("shop").asleep)
    assert "ASLEEP" in visitor.see("/console/")
    assert "asleep now" in visitor.see(base(service))
    assert visitor.send(f"{base(service)}/sleep", sleep_after="9999").status_code == 422
    assert visitor.send(f"{base(service)}/sleep", sleep_after="").status_code == 303
    eventually(lambda: status_of(visitor.named("shop")) is Status.READY)
    assert visitor.named("shop").sleep_after_seconds is None


def test_warm_forks_are_kept_changed_and_dropped(visitor: Visitor) -> None:
    visitor.sign_in()
    path = f"{base(visitor.ready())}/warm-forks"
    assert 'value="600"' in visitor.see(path)
    assert visitor.send(path, warm_size="2", warm_age="60").status_code == 303
    assert "keeps 2" in visitor.see(path.rpartition("/")[0])
    for size, age in (("21", "60"), ("two", "60"), ("2", "5"), ("2", "")):
        assert visitor.send(path, warm_size=size, warm_age=age).status_code == 422
    assert visitor.send(path, warm_size="0", warm_age="60").status_code == 303
    assert 'value="0"' in visitor.see(path)
    assert visitor.send(path, warm_size="", warm_age="60").status_code == 303
    assert "while forked often" in visitor.see(path.rpartition("/")[0])


def test_new_services_and_forks_get_what_the_form_says(visitor: Visitor) -> None:
    visitor.sign_in()
    assert 'name="sleep_after"' in visitor.see("/console/new")
    kept = {"sleep_after": "0.5", "ttl": "3", "labels": "team=a"}
    assert visitor.send("/console/new", name="dozing", service_type="POSTGRES", **kept).status_code == 200
    eventually(lambda: visitor.named("dozing").ready_at is not None)
    visitor.send(f"{base(visitor.named('dozing'))}/fork", strategy="NOW", name="child", **kept)
    for name in ("dozing", "child"):
        made = visitor.named(name)
        assert (made.sleep_after_seconds, made.labels) == (1800, {"team": "a"})
        assert made.life_span is not None
    answer = visitor.send("/console/new", name="other", service_type="POSTGRES", sleep_after="soon")
    assert (answer.status_code, 'id="wrong-sleep_after"' in answer.text) == (422, True)


def test_an_announced_end_is_on_the_page_and_in_the_list(visitor: Visitor) -> None:
    visitor.sign_in()
    service, plane = visitor.ready(), visitor.world.runtime.plane
    extend_service(plane, service.project_id, service.id, LifeTerms(ttl_seconds=60))
    span = visitor.named("shop").life_span
    assert span is not None
    announced = services.life_span_column(span)
    assert announced is not None
    with plane.store.write() as tx:
        services.update_service(tx, service.id, life_span={**announced, "announced_at": announced["expires_at"]})
    assert "The service is deleted at" in visitor.see(base(service))
    assert "EXPIRES SOON" in visitor.see("/console/")


def test_a_protected_service_cannot_be_deleted_and_prod_is_told_to_protect_itself(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    visitor.send(f"{base(service)}/environment", environment="PROD")
    assert "Protect it" in visitor.see(base(service))
    visitor.send(f"{base(service)}/protect")
    page = visitor.see(base(service))
    assert "Protect it" not in page
    assert f'href="{base(service)}/delete"' not in page
    refused = visitor.send(f"{base(service)}/delete", confirmation="shop")
    assert refused.status_code == 409
    assert "is protected" in html.unescape(refused.text)
    assert status_of(visitor.named("shop")) is Status.READY
    assert (visitor.named("shop").protected, "confirm" in visitor.see(f"{base(service)}/unprotect")) == (True, True)
    visitor.send(f"{base(service)}/unprotect", confirmation="shop")
    assert not visitor.named("shop").protected
    assert f'href="{base(service)}/delete"' in visitor.see(base(service))


def test_labels_are_replaced_and_found_by_the_search(visitor: Visitor) -> None:
    visitor.sign_in()
    service = visitor.ready()
    visitor.send(f"{base(service)}/labels", labels="pr=42\nteam=a")
    visitor.send(f"{base(service)}/labels", labels="pr=43")
    assert visitor.named("shop").labels == {"pr": "43"}
    assert service.id in visitor.see("/console/?q=pr%3D43")
    assert service.id not in visitor.see("/console/?q=team%3Da")
    refused = visitor.send(f"{base(service)}/labels", labels="pr")
    assert 'id="wrong-labels"' in refused.text


def test_several_forks_show_their_passwords_once(visitor: Visitor) -> None:
    visitor.sign_in()
    service, plane = visitor.ready(), visitor.world.runtime.plane
    fields = {"strategy": "NOW", "name": "w", "count": "3", "ttl": "1", "labels": "w=1", "key": "several"}
    page = visitor.send(f"{base(service)}/fork", **fields).text
    assert len(set(re.findall(r"tsdbadmin:([^@]+)@", page))) == 3
    made = [one for one in list_services(plane, service.project_id) if one.labels == {"w": "1"}]
    assert [one.name for one in made] == ["w-1", "w-2", "w-3"]
    eventually(lambda: all(status_of(visitor.named(one.name)) is Status.READY for one in made))
    for count in ("0", "101", "000000001", "0" * 5000):
        refused = visitor.send(f"{base(service)}/fork", **{**fields, "count": count})
        assert refused.status_code == 422, count
    assert 'id="wrong-count"' in refused.text
