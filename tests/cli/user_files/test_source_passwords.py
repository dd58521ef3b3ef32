"""Where the password of a source comes from."""

from pathlib import Path

import pytest

from ramet.cli.user_files.source_passwords import find_source_password
from ramet.errors import Invalid
from ramet.model.passwords import Secret

URL = "postgresql://app@db.example:5433/shop"


def test_a_file_comes_before_the_environment(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from the file\nmore\n")
    environ = {"PGPASSWORD": "from the environment"}
    assert find_source_password(URL, tmp_path / "file", environ) == Secret("from the file")
    assert find_source_password(URL, None, environ) == Secret("from the environment")


@pytest.mark.parametrize(
    ("line", "password"),
    [
        (r"db.example:5433:shop:app:a\:b\\c", r"a:b\c"),
        ("*:*:*:app:any", "any"),
        ("db.example:5432:shop:app:other port", None),
        ("# db.example:5433:shop:app:comment", None),
        ("db.example:5433:shop", None),
    ],
    ids=["escaped", "any", "another port", "comment", "too short"],
)
def test_the_password_file_of_libpq_is_read(tmp_path: Path, line: str, password: str | None) -> None:
    file = tmp_path / "pgpass"
    file.write_text(f"other:*:*:*:no\n{line}\n")
    file.chmod(0o600)
    found = find_source_password(URL, None, {"PGPASSFILE": str(file)})
    assert found == (None if password is None else Secret(password))
    file.chmod(0o644)
    assert find_source_password(URL, None, {"PGPASSFILE": str(file)}) is None


def test_a_file_without_a_password_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(Invalid, match="does not begin with a password"):
        find_source_password(URL, tmp_path / "empty", {})
    with pytest.raises(Invalid, match="cannot be read"):
        find_source_password(URL, tmp_path / "missing", {})


def test_only_the_password_that_is_sent_must_be_utf8(tmp_path: Path) -> None:
    (tmp_path / "pgpass").write_bytes(
        b"# gr\xfcn\nother:*:*:*:gr\xfcn\ndb.example:*:*:app:gr\xc3\xbcn\n*:*:*:*:gr\xfcn\n"
    )
    (tmp_path / "pgpass").chmod(0o600)
    environ = {"PGPASSFILE": str(tmp_path / "pgpass")}
    assert find_source_password(URL, None, environ) == Secret("grün")
    (tmp_path / "file").write_bytes(b"geheim\xfc\n")
    for url, file, given, named in (
        ("postgresql://b@h/d", None, environ, r"for h in .*pgpass is not UTF-8"),
        (URL, tmp_path / "file", {}, r"first line of .*file is not UTF-8"),
        (URL, None, {"PGPASSWORD": "geheim\udcfc"}, "PGPASSWORD is not UTF-8"),
    ):
        with pytest.raises(Invalid, match=named) as refused:
            find_source_password(url, file, given)
        assert "geheim" not in str(refused.value)
