"""Which URLs name a source, and that none of them can reach this host's sockets or hide options."""

import pytest

from ramet.backends.interface.sources import SourceAddress
from ramet.errors import Invalid
from ramet.imports.source_url import parse_source, source_url
from ramet.model.pem import PEM_BEGIN


def test_a_url_names_a_database_with_tls_by_default() -> None:
    found = parse_source("postgresql://my%20role@db.example/my%2Fdata")
    assert found == SourceAddress("db.example", 5432, "my/data", "my role", "require")
    assert str(found) == "my role@db.example:5432/my/data"


def test_an_address_of_ipv6_and_a_mode_are_understood() -> None:
    found = parse_source("postgres://u@[::1]:5433/d?sslmode=verify-full", f"{PEM_BEGIN}\r\n")
    assert found == SourceAddress("::1", 5433, "d", "u", "verify-full", f"{PEM_BEGIN}\r\n")


@pytest.mark.parametrize("text", ["", "PEM", f"{PEM_BEGIN}\0", f"# Autorité\n{PEM_BEGIN}"])
def test_a_root_certificate_that_cannot_be_read_or_stored_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="root_certificate is no certificate in PEM"):
        parse_source("postgresql://u@h/d", text)


@pytest.mark.parametrize(
    "url", ["postgresql://my%20role@db:1/my%2Fdata?sslmode=disable", "postgresql://u@[::1]:5/d?sslmode=require"]
)
def test_an_address_is_written_as_it_is_read(url: str) -> None:
    assert source_url(parse_source(url)) == url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://u@h/d", "does not begin with postgresql://"),
        ("postgresql:///d?host=/tmp&user=u", "parameters|one host"),
        ("postgresql://u@/d", "one host"),
        ("postgresql://u@%2Fvar%2Frun/d", "one host, and no UNIX socket"),
        ("postgresql://u@a,b/d", "one host"),
        ("postgresql://h/d", "a user and a database"),
        ("postgresql://u@h", "a user and a database"),
        ("postgresql://u@h:99999/d", "cannot be read"),
        ("postgresql://u@h/d?sslmode=prefer", "sslmode must be one of"),
        ("postgresql://u@h/d?options=-crole%3Dx", "parameters that are not known here: options"),
        ("postgresql://u@h/d?passfile=/etc/passwd", "parameters that are not known here: passfile"),
        ("postgresql://u@db..example/d", "can be no name of a host"),
        (f"postgresql://u@{'a' * 64}/d", "can be no name of a host"),
        ("postgresql://u%0Ax@h/d", "printable characters"),
        ("postgresql://u@h/d%00", "printable characters"),
        ("postgresql://u@h/d?sslmode=verify-ca", "needs a root certificate"),
    ],
)
def test_other_urls_are_refused_with_their_problem(url: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        parse_source(url)


def test_a_url_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(Invalid, match="contains a password") as raised:
        parse_source("postgresql://u:geheim@h/d")
    assert "geheim" not in str(raised.value)
