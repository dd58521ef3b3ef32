"""`ramet`: life spans, labels, protection, taken names, several forks, snapshots by name, and limits of projects."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ramet.api.schemas.services import Service
from ramet.cli.ui.confirmation import Confirmation
from ramet.client import Client
from ramet.errors import Failed
from ramet.model.procedures import ProcedureName
from ramet.model.status import OperationStatus
from ramet.store import operations, services
from ramet.store.tables import operation, service
from tests.cli.terminal import Terminal
from tests.cli.world import World


def names(terminal: Terminal, *options: str) -> list[str]:
    return [one["name"] for one in terminal.ramet("service", "list", "-o", "json", *options).data]


def test_a_service_is_made_with_a_life_span_extended_and_kept(terminal: Terminal) -> None:
    made = terminal.made("service", "create", "spans", "--ttl", "2h", "--idle-ttl", "30m", "--label", "pr=42")
    metadata = made["metadata"]
    assert (metadata["ttl_seconds"], metadata["idle_ttl_seconds"], metadata["labels"]) == (7200, 1800, {"pr": "42"})
    assert terminal.ramet("service", "extend", "spans", "-o", "json").data["metadata"]["ttl_seconds"] == 7200
    assert (
        terminal.ramet("service", "extend", "spans", "--ttl", "1d", "-o", "json").data["metadata"]["ttl_seconds"]
        == 86400
    )
    shown = terminal.ramet("service", "get", "spans").out
    assert "expires" in shown
    assert "pr=42" in shown
    never = terminal.ramet("service", "extend", "spans", "--never", "-o", "json").data["metadata"]
    assert "expires_at" not in never
    assert terminal.ramet("service", "extend", "spans", "--never", "--ttl", "2h").code == 3


def test_a_service_is_made_to_sleep_and_kept_awake(terminal: Terminal) -> None:
    made = terminal.made("service", "create", "dozer", "--sleep-after", "15m")
    assert made["metadata"]["sleep_after_seconds"] == 900
    assert "after 900 s without a client" in terminal.ramet("service", "get", "dozer").out
    longer = terminal.ramet("service", "sleep", "dozer", "--after", "1h", "-o", "json").data["metadata"]
    assert longer["sleep_after_seconds"] == 3600
    never = terminal.ramet("service", "sleep", "dozer", "--never", "-o", "json").data["metadata"]
    assert "sleep_after_seconds" not in never
    assert terminal.ramet("service", "sleep", "dozer").code == 3
    assert terminal.ramet("service", "sleep", "dozer", "--never", "--after", "1h").code == 3


def test_a_protected_service_is_not_deleted_and_neither_are_those_beside_it(terminal: Terminal) -> None:
    terminal.made("service", "create", "held", "--protected", "--label", "batch=7")
    terminal.made("service", "create", "loose", "--label", "batch=7")
    said = terminal.ramet("service", "delete", "--label", "batch=7", "--yes")
    assert (said.code, "unprotect" in said.err) == (3, True)
    assert {"held", "loose"} <= set(names(terminal))
    terminal.ramet("service", "unprotect", "held")
    assert terminal.ramet("service", "delete", "--label", "batch=7", "--yes").code == 0
    assert not {"held", "loose"} & set(names(terminal))
    assert terminal.ramet("service", "delete", "--label", "batch=7", "--yes").code == 0


def test_labels_are_set_and_removed_and_filter_the_list(terminal: Terminal) -> None:
    terminal.made("service", "create", "tagged")
    terminal.ramet("service", "label", "tagged", "owner=ada", "zone=a")
    assert names(terminal, "--label", "owner=ada") == ["tagged"]
    terminal.ramet("service", "label", "tagged", "owner-")
    assert names(terminal, "--label", "owner") == []
    assert names(terminal, "--label", "zone") == ["tagged"]
    assert terminal.ramet("service", "label", "tagged", "owner").code == 3


def test_several_services_are_deleted_at_once(terminal: Terminal) -> None:
    for name in ("first", "second"):
        terminal.made("service", "create", name)
    assert terminal.ramet("service", "delete", "first", "second", "--yes").code == 0
    assert not {"first", "second"} & set(names(terminal))
    assert terminal.ramet("service", "delete", "--yes").code == 3


def test_a_service_that_expires_while_its_deletion_is_confirmed_does_not_keep_the_others(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        terminal.made("service", "create", name, "--label", "batch=8")
    ask = Confirmation.ask

    def expire_it(confirmation: Confirmation, asked: Service, *words: str) -> None:
        ask(confirmation, asked, *words)
        if asked.name == "two":
            with world.client() as client:
                client.delete_service(asked.service_id)
                client.wait_deleted(asked.service_id)

    with monkeypatch.context() as slow:
        slow.setattr(Confirmation, "ask", expire_it)
        said = terminal.ramet("service", "delete", "--label", "batch=8", "--yes")
    assert (said.code, "was already deleted" in said.err) == (0, True), said.err
    assert names(terminal, "--label", "batch=8") == []


def test_a_taken_name_is_refused_unless_wanted_or_returned(terminal: Terminal) -> None:
    made = terminal.made("service", "create", "once")
    refused = terminal.ramet("service", "create", "once")
    assert (refused.code, "--if-not-exists" in refused.err) == (3, True)
    assert terminal.made("service", "create", "once", "--if-not-exists")["service_id"] == made["service_id"]
    twice = terminal.made("service", "create", "once", "--allow-duplicate-name", "--idempotency-key", "k1")
    assert twice["service_id"] != made["service_id"]
    again = terminal.made("service", "create", "once", "--allow-duplicate-name", "--idempotency-key", "k1")
    assert again["service_id"] == twice["service_id"]
    several = terminal.ramet("service", "create", "once", "--if-not-exists")
    assert (several.code, "Several services have this name" in several.err) == (3, True)


@pytest.mark.parametrize("options", [(), ("--no-wait",)])
def test_a_service_that_is_being_deleted_is_not_returned_for_its_name(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    name = f"reopened{len(options)}"
    made = begin_deletion(terminal, world, monkeypatch, name)
    again = terminal.made("service", "create", name, "--if-not-exists", *options)
    assert again["service_id"] != made
    assert terminal.made("wait", name)["service_id"] == again["service_id"]


def test_a_service_that_another_command_makes_during_a_deletion_is_returned_for_its_name(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = list[str]()
    begin_deletion(
        terminal,
        world,
        monkeypatch,
        "raced",
        lambda: others.append(terminal.made("service", "create", "raced")["service_id"]),
    )
    again = terminal.made("service", "create", "raced", "--if-not-exists")
    assert [again["service_id"]] == others


@pytest.mark.parametrize("options", [(), ("--no-wait",)])
def test_a_service_that_could_not_be_made_is_not_returned_for_its_name(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    name = f"retried{len(options)}"

    def refuse(*_: object, **__: object) -> None:
        raise Failed("DISK_FULL", "The disk is full")

    def shown_until(at: datetime) -> None:
        with world.runtime.plane.store.write() as tx:
            failed = (service.c.name == name) & service.c.failed_at.is_not(None)
            tx.execute(service.update().where(failed).values(failed_at=at))

    with monkeypatch.context() as patched:
        patched.setattr(world.backend.servers, "await_ready", refuse)
        assert terminal.ramet("service", "create", name).code != 0
    shown_until(datetime.now(UTC) + timedelta(hours=1))
    get_service = Client.get_service

    def get_until_now(*given: Any) -> Service:
        found = get_service(*given)
        shown_until(datetime.now(UTC) - timedelta(hours=1))
        return found

    monkeypatch.setattr(Client, "get_service", get_until_now)
    again = terminal.made("service", "create", name, "--if-not-exists", *options)
    assert terminal.made("wait", name)["service_id"] == again["service_id"]


def record_failed_recovery(world: World, service_id: str, at: datetime) -> None:
    failed = {"status": OperationStatus.FAILED, "created_at": at, "finished_at": at}
    with world.runtime.plane.store.write() as tx:
        recovery = operations.submit(tx, ProcedureName.RECOVER, "choose", service_id, {})
        tx.execute(operation.update().where(operation.c.id == recovery).values(failed))
        services.update_service(tx, service_id, down_reason="Its server is not running.")


def test_a_service_whose_first_recovery_failed_is_returned_for_its_name_while_it_is_down(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.cli.commands.new_services._DELETION_SECONDS", 1.0)
    made = terminal.made("service", "create", "recovered")["service_id"]
    record_failed_recovery(world, made, datetime.now(UTC) - timedelta(hours=1))
    found = terminal.made("service", "create", "recovered", "--if-not-exists", "--no-wait")
    assert found["service_id"] == made


def test_a_service_whose_recovery_succeeds_after_all_is_returned_for_its_name(
    terminal: Terminal, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = terminal.made("service", "create", "saved")["service_id"]
    record_failed_recovery(world, made, datetime.now(UTC))
    get_service = Client.get_service

    def recover_then_get(*given: Any) -> Service:
        with world.runtime.plane.store.write() as tx:
            services.update_service(tx, made, down_reason=None)
        return get_service(*given)

    monkeypatch.setattr(Client, "get_service", recover_then_get)
    found = terminal.made("service", "create", "saved", "--if-not-exists", "--wait-timeout", "5s")
    assert found["service_id"] == made


def begin_deletion(
    terminal: Terminal,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    then: Callable[[], object] = lambda: None,
) -> str:
    """Make a service and delete it, which ends when a command waits for it; before that returns, call `then`."""
    made: str = terminal.made("service", "create", name)["service_id"]
    may_end = threading.Event()
    destroy, wait_deleted = world.backend.servers.destroy, Client.wait_deleted

    def destroy_later(server: Any) -> None:
        may_end.wait(30)
        destroy(server)

    def wait_from_now_on(*given: Any) -> None:
        may_end.set()
        wait_deleted(*given)
        then()

    monkeypatch.setattr(world.backend.servers, "destroy", destroy_later)
    monkeypatch.setattr(Client, "wait_deleted", wait_from_now_on)
    assert terminal.ramet("service", "delete", name, "--yes", "--no-wait").code == 0
    return made


def test_forks_without_a_name_get_free_ones_and_taken_ones_are_refused(terminal: Terminal) -> None:
    terminal.made("service", "create", "base")
    made = [terminal.made("service", "fork", "base", "--now")["name"] for _ in range(3)]
    assert made == ["base-fork", "base-fork-2", "base-fork-3"]
    assert terminal.ramet("service", "fork", "base", "--now", "--name", "base-fork").code == 3
    there = terminal.made("service", "fork", "base", "--now", "--if-not-exists")
    assert there["name"] == "base-fork"


def test_several_forks_are_made_in_one_command(terminal: Terminal) -> None:
    terminal.made("service", "create", "many")
    said = terminal.ramet(
        "service", "fork", "many", "--now", "--name", "w", "--count", "3", "--ttl", "1h", "--label", "w=1"
    )
    assert said.code == 0
    assert names(terminal, "--label", "w=1") == ["w-1", "w-2", "w-3"]
    assert terminal.ramet("service", "fork", "many", "--now", "--name", "w", "--count", "2").code == 3


def test_a_snapshot_is_taken_forked_and_deleted_by_name(terminal: Terminal) -> None:
    terminal.made("service", "create", "photo")
    assert terminal.ramet("snapshot", "create", "photo", "before").code == 0
    assert terminal.ramet("snapshot", "create", "photo", "before").code == 3
    listed = terminal.ramet("snapshot", "list", "photo", "-o", "json").data
    assert [one["status"] for one in listed if one["name"] == "before"] == ["AVAILABLE"]
    fork = terminal.made("service", "fork", "photo", "--snapshot", "before")
    assert fork["metadata"]["snapshot_id"] == next(one["id"] for one in listed if one["name"] == "before")
    assert terminal.ramet("snapshot", "delete", "photo", "before").code == 0
    assert terminal.ramet("snapshot", "delete", "photo", "other").code == 6
