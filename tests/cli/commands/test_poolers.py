"""Poolers and read replica sets on the command line, against a server over HTTP."""

from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_enabling_a_pooler_prints_its_connection_string(terminal: Terminal) -> None:
    terminal.made("service", "create", "pooled")
    said = terminal.ramet("service", "pooler", "enable", "pooled")
    assert said.code == 0, said.err
    pooler = terminal.made("service", "get", "pooled")["connection_pooler"]["endpoint"]
    assert f":{pooler['port']}/tsdb?sslmode=" in said.out
    pooled = terminal.ramet("db", "connection-string", "pooled", "--pooled", "--with-password").out
    direct = terminal.ramet("db", "connection-string", "pooled", "--with-password").out
    assert pooled.partition("@")[0] == direct.partition("@")[0]
    assert f":{pooler['port']}/" in pooled
    assert terminal.ramet("service", "pooler", "disable", "pooled").code == 0
    assert "connection_pooler" not in terminal.made("service", "get", "pooled")


def test_connecting_without_a_pooler_says_how_to_enable_it(terminal: Terminal) -> None:
    terminal.made("service", "create", "unpooled")
    said = terminal.ramet("db", "connection-string", "unpooled", "--pooled")
    assert (said.code, "pooler enable" in said.err) == (6, True)


def test_a_replica_set_is_created_listed_resized_and_deleted(terminal: Terminal, world: World) -> None:
    parent = terminal.made("service", "create", "followed")
    (made,) = terminal.made("service", "replica", "create", "followed", "reports", "--nodes", "2")
    assert (made["status"], made["nodes"]) == ("active", 2)
    assert "reports" in terminal.ramet("service", "replica", "list", "followed").out
    assert (
        terminal.ramet("service", "replica", "resize", "followed", "reports", "--cpu", "1000", "--memory", "4").code
        == 0
    )
    assert terminal.ramet("service", "replica", "set-environment", "followed", made["id"], "prod").code == 0
    (listed,) = terminal.made("service", "replica", "list", "followed")
    assert (listed["cpu_millis"], listed["metadata"]["environment"]) == (1000, "PROD")
    assert terminal.ramet("service", "replica", "delete", "followed", "reports").code == 0
    assert terminal.made("service", "replica", "list", "followed") == []
    assert world.backend.volumes.keys() >= {parent["service_id"]}


def test_a_replica_accepts_the_password_of_its_service(terminal: Terminal) -> None:
    terminal.made("service", "create", "opens")
    (made,) = terminal.made("service", "replica", "create", "opens", "reads")
    replica = terminal.ramet("db", "connection-string", made["id"], "--with-password").out
    direct = terminal.ramet("db", "connection-string", "opens", "--with-password").out
    assert replica.partition("@")[0] == direct.partition("@")[0]
    assert f":{made['endpoint']['port']}/" in replica


def test_the_pooler_of_a_replica_is_enabled_by_its_id(terminal: Terminal) -> None:
    terminal.made("service", "create", "both")
    (made,) = terminal.made("service", "replica", "create", "both", "reads")
    assert terminal.ramet("service", "pooler", "enable", made["id"]).code == 0
    assert "connection_pooler" not in terminal.made("service", "get", "both")
    assert "connection_pooler" in terminal.made("service", "replica", "list", "both")[0]
    assert terminal.ramet("service", "pooler", "disable", made["id"]).code == 0


def test_an_unknown_replica_set_is_not_found(terminal: Terminal) -> None:
    terminal.made("service", "create", "alone")
    said = terminal.ramet("service", "replica", "delete", "alone", "reports")
    assert (said.code, "replica list" in said.err) == (6, True)


def test_read_only_is_refused_on_the_pooler_of_a_service(terminal: Terminal) -> None:
    terminal.made("service", "create", "shared")
    terminal.ramet("service", "pooler", "enable", "shared")
    said = terminal.ramet("db", "connect", "shared", "--pooled", "--read-only")
    assert (said.code, "create role" in said.err, "--role" in said.err) == (3, True, True)


def test_connecting_to_a_paused_service_says_how_to_resume_it(terminal: Terminal) -> None:
    made = terminal.made("service", "create", "asleep")
    (reports,) = terminal.made("service", "replica", "create", "asleep", "reads")
    terminal.ramet("service", "stop", "asleep")
    for service in ("asleep", reports["id"]):
        said = terminal.ramet("db", "connect", service)
        assert (said.code, f"service start {made['service_id']}" in said.err) == (3, True)


def test_a_connection_string_has_the_given_role(terminal: Terminal) -> None:
    terminal.made("service", "create", "roles")
    assert "//a%2Fb@" in terminal.ramet("db", "connection-string", "roles", "--role", "a/b").out
    assert terminal.ramet("db", "connection-string", "roles", "--role", "x", "--with-password").code == 3
