"""Limits on CPU and memory: real ones where the host has them, and the files of both versions everywhere."""

import subprocess
from pathlib import Path

import pytest

from harness.waiting import eventually
from ramet.backends.local.host.cgroups import Cgroups, NoLimits, open_limits
from ramet.backends.local.process.identity import children_of
from ramet.backends.local.process.postgres import running
from ramet.backends.local.server.instances import Instances
from ramet.model.size import Size
from tests.backends.local.hosts import boot, new_server

SIZE = Size(500, 2)


@pytest.mark.root
def test_every_process_of_a_server_is_held_to_its_size(instances: Instances) -> None:
    limits = instances.limits
    if isinstance(limits, NoLimits):
        pytest.skip(limits.describe())
    assert isinstance(limits, Cgroups)
    server = new_server(instances, size=SIZE)
    boot(instances, server)
    pid = running(instances.paths(server.service_id))
    assert pid is not None
    members = limits.memory / server.service_id / "cgroup.procs"

    def are_members() -> bool:  # not at once: a process of autovacuum may begin or end between the two readings
        processes = {pid, *(child for child, _ in children_of(pid))}
        return processes <= {int(line) for line in members.read_text().split()}

    eventually(are_members, "every process in the group")
    instances.remove(server.service_id, 10)
    assert not (limits.cpu / server.service_id).exists()
    assert not (limits.memory / server.service_id).exists()


@pytest.mark.root
def test_a_limit_follows_a_change_of_size() -> None:
    limits = open_limits("ramet-test-limits")
    if isinstance(limits, NoLimits):
        pytest.skip(limits.describe())
    assert isinstance(limits, Cgroups)
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        limits.apply("a", SIZE, [sleeper.pid])
        assert _quota(limits) == "50000"
        limits.apply("a", Size(2000, 8), [sleeper.pid])
        assert _quota(limits) == "200000"
        limits.apply("a", Size(), [sleeper.pid])
        assert _quota(limits) in ("-1", "max")
        limits.apply("a", SIZE, [2**22 - 1])
    finally:
        sleeper.kill()
        sleeper.wait()
        limits.remove("a")
        limits.remove("a")
    assert not any(group.exists() for group in (limits.cpu, limits.memory))


def _quota(limits: Cgroups) -> str:
    file = "cpu.max" if limits.version == 2 else "cpu.cfs_quota_us"
    return (limits.cpu / "a" / file).read_text().split()[0]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000", "memory.limit_in_bytes": "2147483648"}),
        (2, {"cpu.max": "50000 100000", "memory.max": "2147483648"}),
    ],
)
def test_each_version_gets_its_files(tmp_path: Path, version: int, expected: dict[str, str]) -> None:
    parent = tmp_path / "ramet" / "root"
    Cgroups(version, parent, parent).apply("a", SIZE, [])
    assert {file.name: file.read_text() for file in (parent / "a").iterdir()} == expected
    handed_down = [level / "cgroup.subtree_control" for level in (tmp_path, parent.parent, parent)]
    assert [file.exists() for file in handed_down] == [version == 2] * 3


def test_a_shared_service_that_never_had_limits_gets_no_group(tmp_path: Path) -> None:
    Cgroups(2, tmp_path, tmp_path).apply("a", Size(), [1])
    assert list(tmp_path.iterdir()) == []


def test_a_host_without_cgroups_describes_why_nothing_is_limited() -> None:
    limits = NoLimits("Ramet does not run as root")
    limits.apply("a", SIZE, [1])
    limits.remove("a")
    assert limits.describe() == "CPU and memory limits are not enforced: Ramet does not run as root."
