"""The address of a source as users write it: a URL of libpq (PostgreSQL 18 docs, 32.1.1.2) without a password.

Only what names a server over TCP is accepted: on a UNIX socket, PostgreSQL could take this process for the
platform.
"""

from urllib.parse import parse_qsl, unquote, urlsplit

from ramet.backends.interface.sources import SourceAddress
from ramet.endpoints import connection_uri
from ramet.errors import Invalid
from ramet.model.pem import is_pem
from ramet.model.upstream import Upstream

_SCHEMES = ("postgresql", "postgres")
_MODES = ("disable", "require", "verify-ca", "verify-full")
_LONGEST = 2000
_EXAMPLE = "It looks like postgresql://user@host:5432/database?sslmode=require."


def parse_source(url: str, root_certificate: str | None = None) -> SourceAddress:
    """Return the address in a URL. Raises Invalid, without the URL where that has a password."""
    try:
        parts = urlsplit(url)
        port = parts.port or 5432
    except ValueError as error:
        raise _wrong("it cannot be read") from error
    if parts.password is not None:
        raise _wrong("it contains a password", "Leave it out of the URL, and send the password beside it.")
    if parts.scheme not in _SCHEMES or len(url) > _LONGEST or not url.isprintable():
        raise _wrong("it does not begin with postgresql://")
    host, user, database = parts.hostname or "", unquote(parts.username or ""), unquote(parts.path.removeprefix("/"))
    if not host or "/" in unquote(host) or host.startswith("@") or "," in parts.netloc:
        raise _wrong("it must name one host, and no UNIX socket")
    if not user or not database:
        raise _wrong("it must name a user and a database")
    if not (user + database).isprintable():
        raise _wrong("the names of the user and of the database must have printable characters only")
    if not _can_be_host(host):
        raise _wrong(f"{host[:100]!r} can be no name of a host")
    mode = _mode(parts.query)
    if mode.startswith("verify") and root_certificate is None:
        raise Invalid(
            "INVALID_SOURCE",
            f"sslmode={mode} needs a root certificate to verify the source with",
            "Add sslrootcert=FILE to the URL of the command line, or send root_certificate.",
        )
    if root_certificate is not None and not is_pem(root_certificate):
        raise Invalid(
            "INVALID_SOURCE",
            "root_certificate is no certificate in PEM",
            "Send the text from -----BEGIN CERTIFICATE----- on. It must be ASCII without control characters.",
        )
    return SourceAddress(host, port, database, user, mode, root_certificate)


def source_url(source: SourceAddress | Upstream) -> str:
    """Return the URL of a source; its root certificate is not in it."""
    where, mode = (source.host, source.port), source.sslmode
    return connection_uri(*where, role=source.user, database=source.database, sslmode=mode)


def _can_be_host(host: str) -> bool:
    """Tell whether a name can be looked up: no label of it is empty or has more than 63 characters."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def _mode(query: str) -> str:
    given = dict(parse_qsl(query, keep_blank_values=True))
    mode = given.pop("sslmode", "require")
    if given:
        names = ", ".join(sorted(given))[:100]
        raise _wrong(f"it has parameters that are not known here: {names}", "Only sslmode is, and sslrootcert.")
    if mode not in _MODES:
        raise _wrong(f"sslmode must be one of {', '.join(_MODES)} (got {mode[:20]!r})")
    return mode


def _wrong(problem: str, remedy: str = _EXAMPLE) -> Invalid:
    return Invalid("INVALID_SOURCE", f"The source is not a usable URL: {problem}", remedy)
