"""The image of Ramet itself, made of this checkout's wheel, and put into the running cluster."""

import tarfile
import tempfile
from pathlib import Path

from harness.kubernetes import layers
from harness.kubernetes.cluster import enter
from harness.kubernetes.configuration import RUNTIME_STATE
from harness.kubernetes.images import REGISTRY, Image
from harness.kubernetes.layers import Layer, install_packages
from harness.kubernetes.versions import REPOSITORY, run

NAME = f"{REGISTRY}/ramet:test"
_PLACE = "opt/ramet"
_PROGRAM = "#!/usr/bin/python3\nfrom ramet.cli.commands import main\nmain()\n"
_ENVIRONMENT = ("PATH=/opt/ramet/bin:/usr/bin:/bin", "PYTHONPATH=/opt/ramet", "PYTHONDONTWRITEBYTECODE=1", "HOME=/tmp")


def import_image() -> None:
    """Make the image of this checkout, and let the node have it under its name.

    Like the one of the Dockerfile it runs as a user without rights. Its base is that of the other images here.
    """
    with tempfile.TemporaryDirectory() as temporary:
        own, archive = Path(temporary) / "layer.tar", Path(temporary) / "image.tar"
        _write(own)
        layer = Layer(str(own), lambda path: None, at=own)
        Image(NAME, (layers.OPERAND_ROOT, layer), ("/opt/ramet/bin/ramet",), _ENVIRONMENT, "10001:10001").write(archive)
        ctr = ["ctr", "--address", str(RUNTIME_STATE / "containerd.sock"), "--namespace", "k8s.io"]
        run(*enter([*ctr, "images", "import", str(archive)]))


def _write(path: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "ramet"
        install_packages(place, _PLACE, str(REPOSITORY))
        program = place / "bin" / "ramet"
        program.write_text(_PROGRAM)
        program.chmod(0o755)
        with tarfile.open(path, "w") as archive:
            archive.add(place, _PLACE)
