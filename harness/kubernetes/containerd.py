"""containerd: its configuration, and a run of it alone, which unpacks images."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from harness.kubernetes.images import PAUSE
from harness.kubernetes.versions import run
from harness.waiting import eventually

_CONFIGURATION = """\
version = 2
root = "{root}"
state = "{state}/state"
oom_score = 0
[grpc]
  address = "{state}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  disable_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{state}/cni"
"""


def configure(root: Path, state: Path) -> Path:
    """Write the configuration into the state directory, and return its path."""
    state.mkdir(parents=True, exist_ok=True)
    configuration = state / "containerd.toml"
    configuration.write_text(_CONFIGURATION.format(root=root, state=state, pause=PAUSE.name))
    return configuration


def ctr(*arguments: str, state: Path) -> str:
    """Run containerd's client on the images of Kubernetes."""
    return run("ctr", "--address", str(state / "containerd.sock"), "--namespace", "k8s.io", *arguments)


@contextlib.contextmanager
def running(root: Path, state: Path) -> Iterator[None]:
    """Run containerd for the block. Its mounts and the containers' are the caller's to remove."""
    configuration = configure(root, state)
    with (state / "containerd.log").open("wb") as log:
        process = subprocess.Popen(["containerd", "--config", str(configuration)], stdout=log, stderr=log)

    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError(
                f"containerd ended with {process.returncode}: {(state / 'containerd.log').read_text()[-2000:]}"
            )
        return (state / "containerd.sock").exists()

    try:
        eventually(answers, "containerd's socket", 0.05)
        yield
    finally:
        process.terminate()
        process.wait()
