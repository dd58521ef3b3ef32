"""A large file is shared in pieces, while its server goes on writing."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ramet.backends.local.volumes import reflink
from ramet.backends.local.volumes.pool import Pool
from tests.backends.local.pools import make_pool

_MEBIBYTE = 1024**2


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with make_pool(tmp_path_factory.mktemp("pool"), "reflink") as pool:
        yield pool


@pytest.fixture
def large(sharing: Pool) -> Iterator[Path]:
    path = sharing.path / "large"
    path.write_bytes(b"".join(bytes([number]) * _MEBIBYTE for number in range(64)))
    yield path
    path.unlink()


@pytest.mark.root
@pytest.mark.parametrize(
    "changed_mb",
    [10, 16, 40, 63, 70],
    ids=["within the first piece", "to the first piece", "between", "at the end", "longer than before"],
)
def test_a_file_that_is_truncated_or_extended_during_the_copy(
    large: Path, monkeypatch: pytest.MonkeyPatch, changed_mb: int
) -> None:
    """PostgreSQL repeats both from the WAL: what matters is that the rest of the file is right."""
    share_range = reflink._share_range

    def change_after_first(source: int, target: int, offset: int, size: int = 0) -> bool:
        shared = share_range(source, target, offset, size)
        os.truncate(large, changed_mb * _MEBIBYTE)
        return shared

    monkeypatch.setattr(reflink, "_share_range", change_after_first)
    clone = large.with_name(f"clone-{changed_mb}")
    with large.open("rb") as source, clone.open("wb") as target:
        reflink.share(source.fileno(), target.fileno(), os.fstat(source.fileno()))
    found = clone.read_bytes()
    clone.unlink()
    common = min(changed_mb, 64) * _MEBIBYTE
    assert found[:common] == large.read_bytes()[:common]


@pytest.mark.root
def test_what_cannot_be_shared_is_an_error(large: Path, tmp_path: Path) -> None:
    with (
        large.open("rb") as source,
        (tmp_path / "elsewhere").open("wb") as target,
        pytest.raises(OSError, match="cross-device"),
    ):
        reflink.share(source.fileno(), target.fileno(), os.fstat(source.fileno()))
