"""How script/kubernetes ends where something is missing or fails."""

import os
import shutil

import pytest

from harness.kubernetes import __main__ as commands
from harness.kubernetes import building, cluster
from harness.kubernetes.network import NotAvailable


@pytest.mark.parametrize(
    ("error", "status"), [(NotAvailable("Go is needed"), 69), (RuntimeError("syntax error"), 1), (TimeoutError(), 1)]
)
def test_only_what_this_machine_lacks_gives_the_status_that_leaves_the_cluster_out(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(commands, "_require", lambda: None)
    monkeypatch.setattr(building, "build", fail)
    assert commands.main(["build"]) == status


def test_go_and_root_are_what_a_machine_may_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert commands.main(["build"]) == 69
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(commands, "_install_packages", lambda: None)
    monkeypatch.setattr(building, "missing", lambda: ["program kube"])
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert commands.main(["build"]) == 69


def test_a_cluster_that_does_not_come_up_for_the_tests_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TimeoutError("the API server did not come within 300 s")

    ended: list[bool] = []
    monkeypatch.setattr(commands, "_require", lambda: None)
    monkeypatch.setattr(commands, "_require_root", lambda: None)
    monkeypatch.setattr(building, "build", lambda _: None)
    monkeypatch.setattr(cluster, "is_up", lambda: False)
    monkeypatch.setattr(cluster, "up", fail)
    monkeypatch.setattr(cluster, "down", lambda: ended.append(True))
    assert commands.main(["test"]) == 1
    assert ended == [True]
