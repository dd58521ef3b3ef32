"""The images of the cluster's containers, and archives of them that containerd imports. None is fetched."""

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

from harness.kubernetes import layers, programs
from harness.kubernetes.layers import Layer
from harness.kubernetes.versions import BARMAN_PLUGIN, CLOUDNATIVE_PG, PGBOUNCER, POSTGRES, digest

REGISTRY = "ramet.test"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """An image: its name with its tag, its layers from the lowest, and how a container of it starts."""

    name: str
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    user: str = ""

    def write(self, path: Path) -> None:
        """Write the image as an archive of the kind that `docker save` writes."""
        names = [f"{number}.tar" for number in range(len(self.layers))]
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer.path)}" for layer in self.layers]},
                "config": {
                    "Env": [_PATH, *self.environment],
                    "Entrypoint": list(self.entrypoint) or None,
                    "User": self.user,
                    "WorkingDir": "/",
                },
            }
        ).encode()
        config_name = f"{hashlib.sha256(config).hexdigest()}.json"
        manifest = json.dumps([{"Config": config_name, "RepoTags": [self.name], "Layers": names}]).encode()
        with tarfile.open(path, "w") as archive:
            for name, content in ((config_name, config), ("manifest.json", manifest)):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            for name, layer in zip(names, self.layers, strict=True):
                archive.add(layer.path, name)


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


PAUSE = Image(f"{REGISTRY}/pause:1", (layers.programs("pause", {"pause": programs.PAUSE}),), ("/pause",))
OPERATOR = Image(
    f"{REGISTRY}/cloudnative-pg:{CLOUDNATIVE_PG}",
    (
        layers.programs(
            "cloudnative-pg", {"operator/manager_amd64": programs.OPERATOR}, {"manager": "operator/manager_amd64"}
        ),
    ),
    ("/manager",),
    user="65532:65532",
)
OPERAND = Image(f"{REGISTRY}/postgresql:{POSTGRES}", (layers.OPERAND_ROOT,), user="26")
POOLER = Image(f"{REGISTRY}/pgbouncer:{PGBOUNCER}", (layers.POOLER_ROOT,), user="998:996")
_BARMAN_MANAGER = layers.programs("barman-plugin", {"manager": programs.BARMAN})
BARMAN_PLUGIN_IMAGE = Image(
    f"{REGISTRY}/plugin-barman-cloud:{BARMAN_PLUGIN}", (_BARMAN_MANAGER,), ("/manager",), user="65532"
)
BARMAN_SIDECAR = Image(
    f"{REGISTRY}/plugin-barman-cloud-sidecar:{BARMAN_PLUGIN}",
    (layers.OPERAND_ROOT, layers.BARMAN_TOOLS, _BARMAN_MANAGER),
    ("/manager",),
    ("PATH=/opt/barman/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONPATH=/opt/barman"),
    user="26:26",
)

IMAGES = (PAUSE, OPERATOR, OPERAND, POOLER, BARMAN_PLUGIN_IMAGE, BARMAN_SIDECAR)
LAYERS = tuple({layer.name: layer for image in IMAGES for layer in image.layers}.values())


def images_digest() -> str:
    """Return what names this set of images: it changes with any layer and any setting of an image."""
    return digest(
        *(
            repr((image.name, [one.name for one in image.layers], image.entrypoint, image.environment, image.user))
            for image in IMAGES
        )
    )
