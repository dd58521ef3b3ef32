"""How the values of settings are written, and what reads them: each kind says what it wants."""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """How a value is written, and what reads it; `read` raises ValueError or KeyError for anything else."""

    wanted: str
    read: Callable[[str], Any]


def number(lowest: int, highest: int) -> Kind:
    """Return the kind of whole numbers in a range, both ends included."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 12 and lowest <= int(text) <= highest):
            raise ValueError
        return int(text)

    return Kind(f"a whole number from {lowest} to {highest}", read)


def choice(*values: str) -> Kind:
    """Return the kind of one of some words, in upper or lower case."""
    known = {value.lower(): value for value in values}
    return Kind("one of " + ", ".join(values), lambda text: known[text.lower()])


def matching(wanted: str, pattern: str) -> Kind:
    """Return the kind of texts that a regular expression matches from begin to end."""

    def read(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise ValueError
        return text

    return Kind(wanted, read)


def read_host(text: str) -> str:
    """Return a host name, or an address without the brackets that IPv6 has in URLs. Raises ValueError."""
    try:
        return str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})", text) is None:
            raise
        return text


def _read_directory(text: str) -> Path:
    path = Path(text).expanduser()
    if not text or "\0" in text or (path.exists() and not path.is_dir()):
        raise ValueError
    return path.absolute()


def _read_file(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.is_file():
        raise ValueError
    return path.absolute()


def _read_ports(text: str) -> range:
    found = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text)
    if found is None or not 1024 <= int(found[1]) <= int(found[2]) <= 65535:
        raise ValueError
    return range(int(found[1]), int(found[2]) + 1)


def _read_majors(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(re.fullmatch(r"1[5-9]|[2-9][0-9]", part) for part in parts):
        raise ValueError
    return tuple(map(int, parts))


def _read_names(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if not all(re.fullmatch(r"[a-z0-9_]{1,63}", name) for name in found):
        raise ValueError
    return found


def _read_certificate(text: str) -> str:
    return text if text == "auto" else str(_read_file(text))


def _read_networks(text: str) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(part.strip())) for part in text.split(","))


def _read_hosts(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(read_host(part.strip()) for part in text.split(","))


def _read_egress(text: str) -> str:
    return text if text in ("allow", "deny") else ",".join(_read_networks(text))


HOST_NAME = Kind("a host name or an address", read_host)
DIRECTORY = Kind("a directory, which is created if it does not exist", _read_directory)
FILE = Kind("an existing file", _read_file)
CERTIFICATE = Kind("auto, or an existing file", _read_certificate)
PORT_RANGE = Kind("two ports from 1024 to 65535, for example 15432-16431", _read_ports)
SWITCH = Kind("on or off", lambda text: {"on": True, "off": False}[text])
DRIVER = choice("auto", "reflink", "btrfs", "copy")
BACKEND = choice("local", "kubernetes")
LEVEL = choice("DEBUG", "INFO", "WARNING", "ERROR")
REGION = matching("lower-case letters, digits and hyphens", r"[a-z0-9][a-z0-9-]{0,62}")
DATABASE = matching(
    "a URL as sqlite:////srv/ramet.db or postgresql+psycopg://user:password@host/database, in whose user and password"
    " @ is written as %40",
    r"sqlite:///.*|postgresql\+psycopg://(/.*|([^@]*@)?(\[[^]@]*\]|[^]@/?:[]*)(:\d{1,5})?([/?].*)?)",
)
ARCHIVE = matching("a URL that begins with s3://, gs://, az:// or file://", r"(s3|gs|az|file)://.+")
HTTP_URL = matching("a URL that begins with http:// or https://", r"https?://[^\s]+")
NAMESPACE = matching(
    "a name of lower-case letters, digits and hyphens, which may contain {project}",
    r"(?=.{1,62}$)([a-z0-9]|\{project\})(([a-z0-9-]|\{project\})*([a-z0-9]|\{project\}))?",
)
IMAGE = matching("the name of an image, with {major} for the version of PostgreSQL", r"[^\s]*\{major\}[^\s]*")
POOLER_IMAGE = matching("the name of an image", r"[^\s]+")
EGRESS = Kind("allow, deny, or networks with commas between them, for example 10.0.0.0/8", _read_egress)
CLASS = matching("the name of a class", r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
MAJORS = Kind("versions from 15 on with commas between them, for example 18,17", _read_majors)
HOSTS = Kind("none, or host names and addresses with commas between them", _read_hosts)
NETWORKS = Kind("addresses or networks with commas between them, for example 127.0.0.1,10.0.0.0/8", _read_networks)
EXTENSIONS = Kind("names with commas between them, for example vector,timescaledb", _read_names)
