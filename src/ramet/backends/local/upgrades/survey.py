"""The rows of all tables, and the plans of statements: what is compared before and after an upgrade.

Planning executes functions of tenants, so statements are planned in sessions of the tenants' admin, and rows are
counted while these are silenced.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import psycopg

from ramet.backends.interface.values import Server
from ramet.backends.local.host import files
from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.server.instances import Instances
from ramet.backends.local.sources import target
from ramet.backends.local.sql import connections
from ramet.backends.local.sql.connections import ADMIN_ROLE, Connection
from ramet.backends.local.sql.raw_names import shown
from ramet.backends.local.sql.tenant_code import message_of
from ramet.backends.local.upgrades import silence
from ramet.backends.local.upgrades.cluster import directory_of
from ramet.errors import Unavailable
from ramet.model.upgrade import Statement, StatementPlan, Survey

_LONG = "86400s"
_SETTINGS = "-c lock_timeout=5s -c statement_timeout=10s -c plan_cache_mode=force_generic_plan -c client_encoding=UTF8"
_TABLES = """
SELECT quote_ident(nspname) || '.' || quote_ident(relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE relkind IN ('r', 'm') AND relpersistence <> 't' AND (relkind <> 'm' OR relispopulated)
AND nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1
"""
_PARAMETERS = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'ramet_plan'"


def made(paths: ServicePaths, major: int) -> Survey | None:
    """Return the survey of a version of the data, if it was made."""
    found = files.read(directory_of(paths) / _name(major))
    return msgspec.json.decode(found, type=Survey) if found else None


def make(instances: Instances, server: Server, statements: Sequence[Statement]) -> None:
    """Survey a server that is closed to clients, and keep the result in its volume."""
    paths = instances.paths(server.service_id)
    rows = dict(_count(paths))
    plans = _plans(instances, server, statements) if statements else ()
    instances.account.make_directory(directory_of(paths))
    survey = msgspec.json.encode(Survey(rows, plans))
    files.write(directory_of(paths) / _name(server.pg_major), survey, durable=True)


def _name(major: int) -> str:
    return f"survey-{major}.json"


def _count(paths: ServicePaths) -> Iterator[tuple[str, int]]:
    with connections.connect(paths) as connection:
        databases = [each.name for each in connections.databases(connection) if each.is_open]
    for database in databases:
        with (
            connections.connect(paths, database, statement_timeout=_LONG) as connection,
            silence.silenced(connection, database),
        ):
            for (table,) in connections.rows(connection, _TABLES):
                counted = f"SELECT count(*) FROM ONLY {table}"  # noqa: S608 - it is quoted
                with connection.transaction(force_rollback=True):  # a savepoint, which keeps no lock
                    count = connections.value(connection, counted)
                yield shown(f"{database}.{table}"), count
            large = connections.value(connection, "SELECT count(*) FROM pg_largeobject_metadata")
            yield shown(f"{database}: large objects"), large


def _plans(instances: Instances, server: Server, statements: Sequence[Statement]) -> tuple[StatementPlan, ...]:
    """Plan statements; where a tenant has set that the admin cannot log in, each plan says that."""
    try:
        with target.admitting_admin(instances, server):
            paths = instances.paths(server.service_id)
            return tuple(_planned(paths, server, one) for one in statements)
    except Unavailable as error:
        if error.code != target.NOT_ADMITTED:
            raise
        problem = f"{ADMIN_ROLE} cannot log in: {error.details}"
        return tuple(StatementPlan(one.text, problem=problem) for one in statements)


def _planned(paths: ServicePaths, server: Server, statement: Statement) -> StatementPlan:
    try:
        with (
            target.admin_session(paths, server, _SETTINGS) as connection,
            connection.transaction(force_rollback=True),
        ):
            plan = _plan(connection, statement.text)
    except psycopg.Error as error:
        return StatementPlan(statement.text, problem=message_of(error))
    return StatementPlan(statement.text, tuple(_lines(plan)), round(float(plan["Total Cost"]), 2))


def _plan(connection: Connection, text: str) -> dict[str, Any]:
    connection.execute(f"PREPARE ramet_plan AS {text}".encode())
    count = connections.value(connection, _PARAMETERS)
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    plan: dict[str, Any] = connections.value(connection, f"EXPLAIN (FORMAT JSON) EXECUTE ramet_plan{values}")[0]["Plan"]
    return plan


def _lines(node: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Yield a plan as lines, without costs: its nodes, each with what it reads."""
    kind = node["Node Type"] if "Join Type" not in node else f"{node['Node Type']} ({node['Join Type']})"
    index = f" using {node['Index Name']}" if "Index Name" in node else ""
    table = f" on {node['Relation Name']}" if "Relation Name" in node else ""
    yield f"{'  ' * depth}{kind}{index}{table}"
    for child in node.get("Plans", ()):
        yield from _lines(child, depth + 1)
