"""Two data roots on one host, whose directories bear the same name."""

from pathlib import Path

from ramet.backends.local.host.paths import digest_of


def test_data_roots_of_the_same_name_have_marks_of_their_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "data", tmp_path / "other" / "data"
    assert digest_of(one) != digest_of(other)
    assert digest_of(one) == digest_of(tmp_path / "other" / ".." / "one" / "data")
