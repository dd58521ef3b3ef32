"""What `ramet service import` says of a source that it cannot use."""

from pathlib import Path

import pytest

from ramet.cli.commands.imports import source_fields
from ramet.errors import Invalid


@pytest.fixture(autouse=True)
def password_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose password file is looked through for each source."""
    (tmp_path / "pgpass").write_text("*:*:*:*:geheim\n")
    (tmp_path / "pgpass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    monkeypatch.delenv("PGPASSWORD", raising=False)


@pytest.mark.parametrize(
    "url",
    ["postgresql://[::1/db", "postgresql://app@h:54x/db", "postgresql://app@h:65536/db", "postgresql://app@[x]/db"],
)
def test_a_url_that_cannot_be_read_is_named_with_what_to_write(url: str) -> None:
    with pytest.raises(Invalid, match=r"^--from is not a usable URL.*postgresql://user@host:5432/database") as refused:
        source_fields(f"{url}?sslmode=require", None)
    assert f"(got {url!r})" in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:geheim@h:54x/db",
        "postgresql://app:geheim@[::1/db",
        "postgresql://app:x@geheim@h:54x/db",
        "postgresql://app:x?geheim@h:54x/db",
        "postgresql://app:x/geheim@h/db",
        "postgresql://app:geheim/db",
        "postgresql://app@h:54x/db?password=x@geheim",
    ],
)
def test_a_url_that_cannot_be_read_is_not_shown_where_it_may_have_a_password(url: str) -> None:
    with pytest.raises(Invalid, match="--from is not a usable URL") as refused:
        source_fields(url, None)
    assert "geheim" not in str(refused.value)


def test_a_root_certificate_that_is_no_text_is_named_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "root.der"
    file.write_bytes(b"0\x82\x03\xff")
    with pytest.raises(Invalid, match=r"root\.der is no certificate in PEM: Convert it: openssl x509"):
        source_fields(f"postgresql://app@h/db?sslrootcert={file}", None)
