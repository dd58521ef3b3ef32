"""Connection strings, variables and addresses of endpoints. Only this module makes them."""

import ipaddress
from urllib.parse import quote

ADMIN = "tsdbadmin"
DATABASE = "tsdb"


def connection_uri(
    host: str,
    port: int,
    *,
    role: str = ADMIN,
    password: str | None = None,
    tls: bool = True,
    database: str = DATABASE,
    sslmode: str | None = None,
) -> str:
    """Return the URI for psql and drivers (PostgreSQL 18 docs, 32.1.1.2), with the password if there is one.

    Without an `sslmode` it is that of an endpoint.
    """
    secret = "" if password is None else f":{quote(password, safe='')}"
    place = f"{address(host, port)}/{quote(database, safe='')}"
    return f"postgresql://{quote(role, safe='')}{secret}@{place}?sslmode={sslmode or ssl_mode(tls)}"


def connection_variables(host: str, port: int, *, role: str = ADMIN, tls: bool = True) -> str:
    """Return environment variables of libpq for the same connection, in one line."""
    return f"PGHOST={host} PGPORT={port} PGUSER={role} PGDATABASE={DATABASE} PGSSLMODE={ssl_mode(tls)}"


def ssl_mode(tls: bool) -> str:
    """Return the sslmode of libpq for an endpoint with or without TLS."""
    return "require" if tls else "disable"


def address(host: str, port: int) -> str:
    """Return host:port, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_name(service_id: str) -> str:
    """Return what names the service in a host that only it has: the first label of that."""
    return f"ramet-{service_id}"


def pooler_host(host: str, service_id: str) -> str:
    """Return the host of a pooler: where each service has a host of its own, its pooler has one, too."""
    name, dot, domain = host.partition(".")
    return f"{name}-pooler.{domain}" if dot and name == own_name(service_id) else host


def is_loopback(host: str) -> bool:
    """Tell whether only this host can reach a server that listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
