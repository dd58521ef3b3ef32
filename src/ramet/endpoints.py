"""Where clients connect, as text: connection strings, variables, and addresses. All of them are made here."""

import ipaddress
from urllib.parse import quote

ADMIN = "tsdbadmin"
DATABASE = "tsdb"


def connection_uri(host: str, port: int, *, role: str = ADMIN, password: str | None = None, tls: bool = True) -> str:
    """Return the URI for psql and drivers (PostgreSQL 18 docs, 32.1.1.2), with the password only when it is given."""
    secret = "" if password is None else f":{quote(password, safe='')}"
    return f"postgresql://{quote(role, safe='')}{secret}@{address(host, port)}/{DATABASE}?sslmode={ssl_mode(tls)}"


def connection_variables(host: str, port: int, *, role: str = ADMIN, tls: bool = True) -> str:
    """Return the same as environment variables of libpq, one after the other on a line."""
    return f"PGHOST={host} PGPORT={port} PGUSER={role} PGDATABASE={DATABASE} PGSSLMODE={ssl_mode(tls)}"


def ssl_mode(tls: bool) -> str:
    """Return libpq's sslmode for an endpoint with or without TLS."""
    return "require" if tls else "disable"


def address(host: str, port: int) -> str:
    """Return host:port, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach what listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
