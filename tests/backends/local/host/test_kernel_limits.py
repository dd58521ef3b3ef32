"""What the kernel lets servers have, read from files like those of the kernel."""

import os
from dataclasses import replace
from pathlib import Path

import msgspec

from ramet.backends.local.admission import LocalAdmission
from ramet.backends.local.host.kernel_limits import Kernel
from ramet.machine.processes import record_of

GIB = 1024**3


def put(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def kernel(folder: Path, group: str = "0::/system.slice/ramet.service") -> Kernel:
    proc = folder / "proc"
    put(proc / "self/cgroup", group)
    put(proc / "loadavg", "0.5 0.4 0.3 2/1000 4711")
    put(proc / "sys/kernel/pid_max", 4_000_000)
    put(proc / "sys/kernel/threads-max", 100_000)
    put(proc / "sys/kernel/shmmni", 4096)
    put(proc / "sysvipc/shm", "key shmid\n1 1\n2 2")
    put(proc / "sys/fs/file-nr", "2000 0 90000")
    return Kernel(proc, folder / "cgroup", folder)


def test_of_several_limits_that_which_leaves_least_counts_also_one_of_a_container(tmp_path: Path) -> None:
    found = kernel(tmp_path)
    assert (found.processes(0).most, found.processes(0).used) == (100_000, 1000)  # type: ignore[union-attr]
    put(tmp_path / "cgroup/system.slice/ramet.service/pids.max", "max")
    put(tmp_path / "cgroup/system.slice/pids.max", 500)
    put(tmp_path / "cgroup/system.slice/pids.current", 450)
    limit = found.processes(0)
    assert limit is not None
    assert (limit.most, limit.left, "system.slice" in limit.source) == (500, 50, True)


def test_a_limit_of_memory_counts_without_what_the_kernel_takes_back(tmp_path: Path) -> None:
    found = kernel(tmp_path)
    host = found.memory()
    assert host.source == "the memory of the host"
    assert host.most > GIB / 2
    slice_of = tmp_path / "cgroup/system.slice"
    put(slice_of / "memory.max", GIB // 4)
    put(slice_of / "memory.current", GIB // 8)
    put(slice_of / "memory.stat", f"anon 1\ninactive_file {GIB // 16}")
    limit = found.memory()
    assert (limit.most, limit.used) == (GIB // 4, GIB // 16)


def test_the_limits_are_those_of_the_process_that_starts_the_servers(tmp_path: Path) -> None:
    worker = tmp_path / "worker.json"
    found = replace(kernel(tmp_path), worker=worker)
    put(tmp_path / f"proc/{os.getpid()}/cgroup", "0::/system.slice/ramet-worker.service")
    put(tmp_path / "cgroup/system.slice/ramet-worker.service/pids.max", 70)
    put(tmp_path / "cgroup/system.slice/ramet-worker.service/pids.current", 60)
    assert found.processes(0).most == 100_000  # type: ignore[union-attr]
    worker.write_bytes(msgspec.json.encode(record_of(os.getpid())))
    assert found.processes(0).most == 70  # type: ignore[union-attr]


def test_cgroups_of_version_1_are_read_where_their_controllers_are(tmp_path: Path) -> None:
    found = kernel(tmp_path, "4:memory:/docker/x\n8:pids:/docker/x")
    put(tmp_path / "cgroup/pids/pids.max", 70)  # in a container its own group is the root
    put(tmp_path / "cgroup/pids/pids.current", 60)
    put(tmp_path / "cgroup/memory/docker/x/memory.limit_in_bytes", 2**63 - 4096)
    put(tmp_path / "cgroup/memory/docker/x/memory.usage_in_bytes", GIB)
    limit = found.processes(0)
    assert limit is not None
    assert limit.left == 10
    assert found.memory().source == "the memory of the host"


def test_the_processes_of_a_user_are_counted_when_those_of_all_are_too_many(tmp_path: Path) -> None:
    found = kernel(tmp_path)
    assert found._count_of(os.geteuid()) == 0
    (found.proc / "4711").mkdir()
    assert found._count_of(os.geteuid()) == 1


def test_each_bound_leaves_something_to_others_and_says_how_to_have_more(tmp_path: Path) -> None:
    capacity = LocalAdmission(uid=0, kernel=kernel(tmp_path)).capacity()
    bounds = {bound.name: bound for bound in capacity.bounds}
    assert set(bounds) == {
        "memory", "processes", "open files", "shared memory segments", "dynamic shared memory"
    }  # fmt: skip
    assert bounds["shared memory segments"].room == 4096 - 4096 * 5 // 100 - 2
    assert bounds["processes"].remedy == "Raise kernel.threads-max."
    assert "RAMET_MEMORY_RESERVE_PERCENT" in bounds["memory"].remedy
    assert capacity.committed_mbs is not None
    assert capacity.committed_mbs > bounds["memory"].most  # more than there is: few servers use all of it at a time
    assert capacity.tightest in capacity.bounds


def test_what_the_kernel_does_not_tell_bounds_nothing(tmp_path: Path) -> None:
    nothing = Kernel(tmp_path / "none", tmp_path / "none", tmp_path / "none")
    assert [bound.name for bound in LocalAdmission(uid=0, kernel=nothing).capacity().bounds] == ["memory"]
