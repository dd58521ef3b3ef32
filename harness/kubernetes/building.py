"""Builds all parts of the cluster that are not in the cache yet, in their order, and tells how long each took."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.kubernetes import contents, disk, go_modules
from harness.kubernetes.images import LAYERS
from harness.kubernetes.layout import disk_image
from harness.kubernetes.programs import PROGRAMS
from harness.kubernetes.versions import alone, cache_directory

Part = tuple[str, Path, Callable[[], None]]


def missing() -> list[Part]:
    """Return the parts that have to be built: the name of each, where it will be, and what builds it."""
    return [part for part in _parts() if not part[1].exists()]


def build(say: Callable[[str], None]) -> None:
    """Build whatever is missing. Go's caches, which take gigabytes, go when all is there."""
    with alone("build"):
        parts = missing()
        for number, (name, _, make) in enumerate(parts, 1):
            say(f"building {number} of {len(parts)}: {name}")
            began = time.monotonic()
            make()
            say(f"built {name} in {time.monotonic() - began:.0f} s")
        _forget_old_parts()
        go_modules.delete_caches()


def _parts() -> Iterator[Part]:
    for program in PROGRAMS:
        yield f"program {program.name}", program.path, program.build
    yield "manifests", contents.manifests(), contents.build
    for layer in LAYERS:
        yield f"layer {layer.name}", layer.path, layer.build
    yield "disk with all images", disk_image(), disk.build


def _forget_old_parts() -> None:
    wanted = {path for _, path, _ in _parts()}
    for program in PROGRAMS:
        wanted.add(program.path.parent)
    cache = cache_directory()
    for path in (*cache.glob("programs/*"), *cache.glob("layers/*"), *cache.glob("manifests-*"), *cache.glob("half*")):
        if path not in wanted:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(cache / "work", ignore_errors=True)
