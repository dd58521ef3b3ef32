"""The digests of what was sent are kept in lines that a full disk may cut."""

from pathlib import Path

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.off_host.digests import forget_digests, record_digest, sent_digests

FIRST, SECOND = "000000010000000000000003", "000000010000000000000004"
DIGEST = "0123456789abcdef" * 4


@pytest.fixture
def paths(tmp_path: Path) -> ServicePaths:
    return ServicePaths(tmp_path, tmp_path)


@pytest.mark.parametrize("cut", ["0000", FIRST, f"{FIRST} ", f"{FIRST} 0123", f"{FIRST} {DIGEST}"])
def test_a_line_that_was_cut_off_spoils_no_other_one(paths: ServicePaths, cut: str) -> None:
    (paths.root / "off_host_digests").write_text(f"00000001.history {DIGEST}\n{cut}")
    whole = {FIRST: DIGEST} if cut.endswith(DIGEST) else {}
    assert sent_digests(paths) == {"00000001.history": DIGEST} | whole
    record_digest(paths, SECOND, DIGEST)
    assert sent_digests(paths) == {"00000001.history": DIGEST, SECOND: DIGEST} | whole


def test_names_that_an_earlier_release_has_joined_are_no_files(paths: ServicePaths) -> None:
    (paths.root / "off_host_digests").write_text(f"0000{FIRST} {DIGEST}\n{SECOND} {DIGEST}\n")
    assert sent_digests(paths) == {SECOND: DIGEST}


def test_forgotten_digests_are_gone(paths: ServicePaths) -> None:
    for name in (FIRST, SECOND, SECOND):
        record_digest(paths, name, DIGEST)
    forget_digests(paths, {FIRST})
    assert sent_digests(paths) == {SECOND: DIGEST}
