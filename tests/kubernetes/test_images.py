"""Images are archives of the kind that containerd imports; a layer is in the cache whole or not at all."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from harness.kubernetes.images import Image
from harness.kubernetes.layers import Layer


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAMET_KUBERNETES_CACHE", str(tmp_path / "cache"))


def _layer(name: str) -> Layer:
    layer = Layer(name, lambda path: path.write_bytes(name.encode()))
    layer.build()
    return layer


def test_an_archive_names_its_layers_from_the_lowest_by_their_digests(tmp_path: Path) -> None:
    image = Image("ramet.test/some:1", (_layer("low"), _layer("high")), ("/program",), ("A=b",), user="26")
    image.write(tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:

        def read(name: str) -> bytes:
            content = archive.extractfile(name)
            assert content is not None
            return content.read()

        (manifest,) = json.loads(read("manifest.json"))
        config = json.loads(read(manifest["Config"]))
        assert manifest["RepoTags"] == ["ramet.test/some:1"]
        assert [read(name) for name in manifest["Layers"]] == [b"low", b"high"]
    digests = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in (b"low", b"high")]
    assert config["rootfs"]["diff_ids"] == digests
    assert config["config"]["Entrypoint"] == ["/program"]
    assert config["config"]["User"] == "26"
    assert "A=b" in config["config"]["Env"]


def test_a_layer_that_cannot_be_made_is_not_in_the_cache() -> None:
    def fails(path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("the disk is full")

    layer = Layer("broken", fails)
    with pytest.raises(RuntimeError, match="full"):
        layer.build()
    assert not layer.path.exists()
