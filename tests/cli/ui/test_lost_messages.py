"""Messages for people that nobody receives: the command goes on, and its exit code and its output are as ever."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from ramet.api.schemas.restores import Restore
from ramet.client import Client
from ramet.model.status import OperationStatus
from tests.cli.terminal import Terminal


@pytest.fixture(autouse=True, params=[False, True], ids=["plain", "coloured"])
def _colours(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setenv("FORCE_COLOR", "1")


@contextmanager
def messages_without_a_reader() -> Iterator[None]:
    """Lead standard error into a pipe whose reader has ended, until the end of the block."""
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.MonkeyPatch.context() as patched, os.fdopen(writing, "w", buffering=1) as stream:
        patched.setattr(sys, "stderr", stream)  # not in a fixture: pytest captures again after these
        yield


def test_a_rewind_that_fails_exits_with_1(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    get_restore = Client.get_restore
    steps = iter(["copy", "open"])

    def failing(client: Client, service_id: str, restore_id: str) -> Restore:
        found, step = get_restore(client, service_id, restore_id), next(steps, None)
        status = OperationStatus.FAILED if step is None else OperationStatus.RUNNING
        return msgspec.structs.replace(found, status=status, step=step)

    service_id = terminal.made("service", "create", "failing", "--allow-duplicate-name")["service_id"]
    assert terminal.ramet("service", "checkpoint", service_id, "good").code == 0
    monkeypatch.setattr(Client, "get_restore", failing)
    with messages_without_a_reader():
        said = terminal.ramet("service", "rewind", service_id, "good", "--yes", "-o", "json")
    assert (said.code, said.data["status"]) == (1, "FAILED")


def test_a_password_that_is_not_saved_is_printed(terminal: Terminal) -> None:
    with messages_without_a_reader():
        made = terminal.made("service", "create", "lone", "--allow-duplicate-name", "--no-save-password")
    assert made["initial_password"]
