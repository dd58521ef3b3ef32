"""Connection strings, variables and addresses of endpoints. Only this module makes them."""

import ipaddress
import json
import re
import shlex
from collections.abc import Mapping
from enum import StrEnum
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

ADMIN = "tsdbadmin"
DATABASE = "tsdb"
BASE_PATH = "/public/api/v1"  # of the published interface
_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where a wildcard is reached from this host
_DOTNET = {
    "host": "Host",
    "port": "Port",
    "dbname": "Database",
    "user": "Username",
    "password": "Password",
    "sslmode": "SSL Mode",
}


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


def connection_variables(
    host: str, port: int, *, role: str = ADMIN, tls: bool = True, database: str = DATABASE
) -> dict[str, str]:
    """Return the environment variables of libpq for the same connection, without a password."""
    return {"PGHOST": host, "PGPORT": str(port), "PGUSER": role, "PGDATABASE": database, "PGSSLMODE": ssl_mode(tls)}


class ConnectionFormat(StrEnum):
    """How a program wants to be told where a database is."""

    URI = "uri"
    PSQL = "psql"
    LIBPQ = "libpq"
    JDBC = "jdbc"
    PYTHON = "python"
    NODE = "node"
    GO = "go"
    DOTNET = "dotnet"


def connection_in(format: ConnectionFormat, uri: str) -> str:
    """Return a connection string of `connection_uri` as a program wants it, or as the line of code that connects."""
    found = urlsplit(uri)
    known = {
        "host": found.hostname or "",
        "port": str(found.port),
        "dbname": unquote(found.path[1:]),
        "user": unquote(found.username or ""),
        **({} if found.password is None else {"password": unquote(found.password)}),
        "sslmode": parse_qs(found.query)["sslmode"][0],
    }
    match format:
        case ConnectionFormat.URI:
            return uri
        case ConnectionFormat.PSQL:
            return f"psql {shlex.quote(uri)}"
        case ConnectionFormat.LIBPQ:
            return " ".join(f"{name}={_in_quotes(value)}" for name, value in known.items())
        case ConnectionFormat.JDBC:
            query = {name: value for name, value in known.items() if name in ("user", "password", "sslmode")}
            return f"jdbc:postgresql://{found.netloc.rpartition('@')[2]}{found.path}?{urlencode(query)}"
        case ConnectionFormat.PYTHON:
            return f"psycopg.connect({json.dumps(uri)})"
        case ConnectionFormat.NODE:
            return f"new pg.Client({json.dumps(_of_node(known))})"
        case ConnectionFormat.GO:
            return f"pgx.Connect(ctx, {json.dumps(uri)})"
        case ConnectionFormat.DOTNET:
            named = {**known, "sslmode": known["sslmode"].title()}
            return ";".join(f"{_DOTNET[name]}={_of_dotnet(value)}" for name, value in named.items())


def _in_quotes(value: str) -> str:
    """Return a value of a connection string of libpq (PostgreSQL 18 docs, 32.1.1.1)."""
    if re.fullmatch(r"[^\s'\\]+", value):
        return value
    return "'" + re.sub(r"(['\\])", r"\\\1", value) + "'"


def _of_node(known: Mapping[str, str]) -> dict[str, object]:
    """Return the options of pg, which reads sslmode=require as a wish to verify the certificate."""
    named = {"database" if name == "dbname" else name: value for name, value in known.items() if name != "sslmode"}
    tls = {"rejectUnauthorized": False} if known["sslmode"] == "require" else False
    return {**named, "port": int(known["port"]), "ssl": tls}


def _of_dotnet(value: str) -> str:
    quoted = value.replace('"', '""')
    return f'"{quoted}"' if re.search(r"[;'\"\s=]", value) else value


def ssl_mode(tls: bool) -> str:
    """Return the sslmode of libpq for an endpoint with or without TLS."""
    return "require" if tls else "disable"


def address(host: str, port: int) -> str:
    """Return host:port, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def base_url(host: str, port: int, *, tls: bool = False) -> str:
    """Return the base URL for clients on this host of an HTTP server that listens there."""
    return f"{'https' if tls else 'http'}://{address(_LOOPBACKS.get(host, host), port)}{BASE_PATH}"


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
