"""What two requests change at once: neither change is lost, and no limit is passed."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from ramet.backends.memory.backend import MemoryBackend
from ramet.control import keys as control_keys
from ramet.control import projects as control_projects
from ramet.control.placement import Placement
from ramet.control.plane import Plane, utc_now
from ramet.control.projects import Projects
from ramet.errors import Exhausted, WrongState
from ramet.events.webhooks import MOST_WEBHOOKS, create_webhook, list_webhooks
from ramet.model.rights import Role
from ramet.store import keys, webhooks
from ramet.store.database import Store
from tests.worlds import ROOT_KEY

_TOGETHER_SECONDS = 0.5


def at_once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, *acts: Callable[[], object]) -> None:
    """Run acts at once, which meet where each calls `name`, unless one of them has to wait for another."""
    met, call = threading.Barrier(len(acts)), getattr(module, name)

    def late(*arguments: Any) -> Any:
        found = call(*arguments)
        with suppress(threading.BrokenBarrierError):
            met.wait(_TOGETHER_SECONDS)
        return found

    with monkeypatch.context() as patch, ThreadPoolExecutor(len(acts)) as pool:
        patch.setattr(module, name, late)
        for each in [pool.submit(act) for act in acts]:
            with suppress(WrongState, Exhausted):
                each.result()


def test_both_changes_of_a_key_count(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = Projects(store)
    project = verbs.create_project("shop", utc_now())
    key, _ = verbs.create_key(project.id, "ci", utc_now(), role=Role.DEVELOPER)

    def change(**limits: int) -> Callable[[], object]:
        return lambda: verbs.change_key(project.id, key.public_key, utc_now(), **limits)

    at_once(monkeypatch, control_keys, "checked_limits", change(max_forks=3), change(max_services=5))
    found = verbs.get_key(project.id, key.public_key).limits
    assert (found.max_forks, found.max_services) == (3, 5)


def test_both_changes_of_a_projects_limits_count(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = Projects(store)
    project = verbs.create_project("shop", utc_now())

    def change(**limits: int) -> Callable[[], object]:
        return lambda: verbs.change_limits(project.id, limits)

    at_once(monkeypatch, control_projects, "check_limits", change(max_forks=3), change(max_services=5))
    found = verbs.get_project(project.id).limits
    assert (found.max_forks, found.max_services) == (3, 5)


def test_two_admins_that_revoke_each_other_at_once_leave_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = Projects(store)
    project = verbs.create_project("shop", utc_now())
    admins = [verbs.create_key(project.id, name, utc_now())[0] for name in ("one", "two")]

    def revoke(public_key: str) -> Callable[[], object]:
        return lambda: verbs.revoke_key_of(project.id, public_key, utc_now())

    at_once(monkeypatch, keys, "list_keys", *(revoke(admin.public_key) for admin in admins))
    assert [key.revoked_at is None for key in verbs.list_keys(project.id)].count(True) == 1


def test_two_webhooks_made_at_once_do_not_pass_the_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Projects(store).create_project("shop", utc_now())
    placement = Placement("local", "localhost", range(20000, 20100))
    plane = Plane(store, MemoryBackend(), placement, ROOT_KEY, lambda: None, utc_now)

    def create() -> object:
        return create_webhook(plane, project.id, "https://example.com/")

    for _ in range(MOST_WEBHOOKS - 1):
        create()
    at_once(monkeypatch, webhooks, "list_of", create, create)
    assert len(list_webhooks(plane, project.id)) == MOST_WEBHOOKS
