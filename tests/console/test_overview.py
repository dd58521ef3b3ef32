"""The overview: forks by age, what they share, what is wrong, and what the host has left."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from ramet.console.views import overview
from ramet.control.plane import utc_now
from ramet.model.keys import KeyLimits
from ramet.model.metrics import Usage
from ramet.model.rights import Role
from ramet.model.service import Service
from ramet.store import metrics, services
from tests.console.visitor import Visitor

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def test_a_project_is_summed_up(visitor: Visitor) -> None:
    visitor.sign_in()
    empty = visitor.see("/console/overview")
    for text in ("0 services in", "There are no forks", "Not measured yet", "<h2>Host</h2>", "ports"):
        assert text in empty, text
    assert "<h2>Host</h2>" not in visitor.see("/console/overview?host=false")
    service = visitor.ready()
    visitor.send(f"/console/services/{service.id}/fork", strategy="NOW", name="copy")
    visitor.settled("copy")
    shown = visitor.see("/console/overview")
    for text in ("2 services in", "2 READY", "less than an hour", "Nothing. Services that fail"):
        assert text in shown, text
    with visitor.world.runtime.store.write() as tx:
        services.update_service(tx, service.id, drill_failure="It stopped elsewhere.")
    attention = f'href="/console/services/{service.id}">shop</a></td><td class="wrap">It stopped elsewhere.</td>'
    assert attention in visitor.see("/console/overview")


@pytest.fixture
def fork(visitor: Visitor) -> Service:
    visitor.sign_in()
    service = visitor.ready()
    visitor.send(f"/console/services/{service.id}/fork", strategy="NOW", name="copy")
    return visitor.settled("copy")


def test_forks_are_grouped_by_age_and_their_own_space_is_added_up(fork: Service) -> None:
    ages = [timedelta(minutes=59), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=400)]
    forks = [replace(fork, id=f"fork{n}", created_at=NOW - age) for n, age in enumerate(ages)]
    found = overview.by_age([*forks, replace(fork, origin=None)], {"fork0": 5, "fork1": 7, "fork2": None}, NOW)
    assert [(one.title, one.count, one.own_bytes) for one in found] == [
        ("less than an hour", 2, 12),
        ("less than a day", 1, 0),
        ("less than a week", 1, 0),
        ("a week or more", 1, 0),
    ]


def test_only_services_of_which_both_sizes_are_known_count_as_savings() -> None:
    own = {"one": 20_000_000, "two": 30_000_000, "three": None, "four": 1}
    usages = {"one": Usage(storage_mb=100), "two": Usage(storage_mb=100), "three": Usage(storage_mb=7), "four": None}
    found = overview.savings(own, usages)
    assert (found.services, found.apparent_bytes, found.own_bytes, found.percent) == (2, 200_000_000, 50_000_000, 75)
    assert overview.savings({}, usages).percent == 0


def test_savings_are_those_of_the_services_that_the_key_sees(visitor: Visitor, fork: Service) -> None:
    runtime = visitor.world.runtime
    both = (visitor.named("shop").id, fork.id)
    with runtime.store.write() as tx:
        metrics.put_usage(tx, {one: Usage(storage_mb=100) for one in both}, utc_now())
        metrics.put_own_space(tx, dict.fromkeys(both, 20_000_000), utc_now())
    assert "Of 2 services whose sizes are measured" in visitor.see("/console/overview")
    with runtime.store.write() as tx:
        services.update_service(tx, fork.id, unclaimed=True)
    assert "Of 1 service whose sizes are measured" in visitor.see("/console/overview")
    limits = KeyLimits(parents=(visitor.named("shop").id,))
    key, _ = runtime.projects.create_key(fork.project_id, "forker", utc_now(), role=Role.FORKER, limits=limits)
    visitor.client.get(runtime.console.make_link(key.public_key))
    assert "Not measured yet" in visitor.see("/console/overview")
