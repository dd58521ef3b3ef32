"""`ramet mcp`: what its tools do, what they refuse, and that they show no password unasked."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest

from harness.ports import free_port
from harness.waiting import BOUND_SECONDS, eventually
from ramet.backends.memory.replacements import MemoryReplacements
from ramet.client import Client, ForkStrategy, TimedOut
from ramet.errors import Failed, Unauthorized
from ramet.kits.mcp import callers
from ramet.kits.mcp.callers import Caller, CallersByKey, one_caller
from ramet.kits.mcp.server import Message, build_server, http_application
from ramet.kits.mcp.sql import GRACE_SECONDS, MOST_SECONDS
from ramet.model.environment import Environment
from ramet.model.rights import Role
from ramet.workbench.statements import Complaint, StatementRefused
from tests.cli.terminal import Terminal
from tests.cli.world import World
from tests.kits.agents import Agent, Refused

_TOOLS = {
    *("checkpoint", "connection", "delete_fork", "execute", "fork", "list_services", "query", "report", "rewind"),
    *("schema", "wait", "window"),
}


@pytest.fixture(scope="module")
def shop(world: World) -> str:
    with world.client() as client:
        return client.wait_ready(client.create_service("shop").service_id).service_id


@pytest.fixture(scope="module")
def key(world: World, shop: str) -> str:
    """The key of a forker, as a request carries it."""
    with world.client() as client:
        made = client.create_key("agent", Role.FORKER, parents=[shop])
    return f"{made.public_key}:{made.secret_key}"


@pytest.fixture(autouse=True)
def _own_files(terminal: Terminal) -> None:
    """Passwords are kept in the files of a test's own user."""


def agent_of(client: Client) -> Agent:
    return Agent(build_server(one_caller(client)))


@pytest.fixture
def forker(world: World, shop: str) -> Iterator[Agent]:
    """An agent with the key of a forker that has no forks yet."""
    with world.client() as client:
        made = client.create_key("agent", Role.FORKER, parents=[shop])
    with Client(world.base_url, world.project.id, made.public_key, made.secret_key) as client:
        yield agent_of(client)


@pytest.fixture
def admin(world: World) -> Iterator[Agent]:
    with world.client() as client:
        yield agent_of(client)


def test_the_tools_say_what_they_are_for_and_which_of_them_read_only(admin: Agent) -> None:
    tools = admin.tools()
    assert set(tools) == _TOOLS
    assert all(one.description for one in tools.values())
    assert all(one.input_schema["additionalProperties"] is False for one in tools.values())
    reads = {name for name, one in tools.items() if one.annotations and one.annotations.read_only_hint}
    assert reads == {"list_services", "query", "report", "schema", "wait", "window"}
    removes = {name for name, one in tools.items() if one.annotations and one.annotations.destructive_hint}
    assert removes == {"delete_fork", "execute", "rewind"}


def test_the_key_of_a_forker_forks_and_sees_and_deletes_its_own(forker: Agent, shop: str) -> None:
    assert forker.call("list_services") == {"services": [], "may_fork": [{"name": "shop", "service_id": shop}]}
    made = forker.call("fork", service="shop", name="mine")
    assert (made["name"], made["status"], made["forked_from"], made["environment"]) == ("mine", "READY", "shop", "DEV")
    assert made["expires_at"]
    assert [one["name"] for one in forker.call("list_services")["services"]] == ["mine"]
    assert forker.call("wait", service="mine")["status"] == "READY"
    assert forker.call("report", fork="mine")["parent_name"] == "shop"
    assert forker.call("window", service="mine")["snapshots"] is not None
    assert forker.call("delete_fork", fork="mine") == {"deleted": "mine"}


def test_the_key_of_a_forker_forks_a_snapshot_by_its_name_and_reads_nothing_of_the_parent(
    forker: Agent, world: World, shop: str
) -> None:
    with world.client() as client:
        taken = client.wait_snapshot(shop, client.take_snapshot(shop, "good").id)
    made = forker.call("fork", service="shop", snapshot="good", name="of-good")
    with world.client() as client:
        assert client.get_service(made["service_id"]).metadata.snapshot_id == taken.id
    for tool, more in (("window", {}), ("query", {"sql": "SELECT 1"}), ("wait", {})):
        for named in ("shop", shop):
            with pytest.raises(Refused, match=f"may fork service '{named}', but not read or change it"):
                forker.call(tool, service=named, **more)
    forker.call("delete_fork", fork="of-good")


def test_a_fork_is_rewound_to_its_checkpoint(forker: Agent) -> None:
    forker.call("fork", service="shop", name="tries")
    assert forker.call("checkpoint", fork="tries", name="start")["status"] == "AVAILABLE"
    assert forker.call("rewind", fork="tries", name="start")["status"] == "READY"
    with pytest.raises(Refused, match="has no snapshot with the id or the name 'other'"):
        forker.call("rewind", fork="tries", name="other")


@pytest.mark.parametrize(("step", "said"), [("close", "as it was before"), ("open", "has the data of the checkpoint")])
def test_a_rewind_that_failed_says_which_data_the_fork_has(
    forker: Agent, monkeypatch: pytest.MonkeyPatch, step: str, said: str
) -> None:
    forker.call("fork", service="shop", name="trial")
    forker.call("checkpoint", fork="trial", name="start")

    def fails(*_: object) -> None:
        raise Failed("SERVER_DOWN", "The server did not start")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryReplacements, step, fails)
        with pytest.raises(Refused, match=said):
            forker.call("rewind", fork="trial", name="start")
    forker.call("delete_fork", fork="trial")


def test_no_tool_shows_a_password_that_was_not_asked_for(forker: Agent) -> None:
    answers = [
        forker.call("fork", service="shop", name="quiet"),
        forker.call("list_services"),
        forker.call("connection", service="quiet"),
        forker.call("report", fork="quiet"),
    ]
    assert not re.search(r"password|//\w+:[^@/]+@", str(answers), re.IGNORECASE)
    asked = forker.call("connection", service="quiet", with_password=True)
    assert re.search(r"//ramet_login_\w+:[^@/]+@", asked["uri"])
    assert asked["read_only"] is False


@pytest.mark.usefixtures("shop")
def test_a_password_that_cannot_be_saved_is_in_the_answer(admin: Agent, terminal: Terminal) -> None:
    (terminal.config / ".pgpass.lock").mkdir(parents=True)
    made = admin.call("fork", service="shop", name="unsaved")
    assert re.search("not saved in a file: .*pgpass cannot be written: Is a directory", made["next"])
    assert len(made["password"]) == 24
    assert admin.call("wait", service="unsaved")["status"] == "READY"
    admin.call("delete_fork", fork="unsaved")


@pytest.mark.usefixtures("shop")
def test_the_user_of_the_command_can_connect_to_a_fork_that_an_agent_made(admin: Agent, terminal: Terminal) -> None:
    admin.call("fork", service="shop", name="shared")
    assert terminal.ramet("db", "connection-string", "shared", "--with-password").code == 0
    admin.call("delete_fork", fork="shared")
    assert (terminal.config / "pgpass").read_text() == ""


def test_only_forks_that_agents_made_are_changed(admin: Agent, world: World, shop: str) -> None:
    with world.client() as client:
        theirs = client.wait_ready(client.fork_service(shop, ForkStrategy.NOW, name="theirs").service_id)
        prod = client.fork_service(shop, ForkStrategy.NOW, name="prod", environment=Environment.PROD)
        client.update_labels(client.wait_ready(prod.service_id).service_id, {"run-by": "mcp"})
        for name in ("shop", "theirs", "prod"):
            for tool, more in (
                ("execute", {"sql": "DROP TABLE orders"}),
                ("checkpoint", {"name": "x"}),
                ("rewind", {"name": "x"}),
                ("delete_fork", {}),
            ):
                with pytest.raises(Refused, match="is for forks that these tools have made"):
                    admin.call(tool, fork=name, **more)
            assert admin.call("connection", service=name, with_password=True)["read_only"] is True
        client.update_labels(theirs.service_id, {"run-by": "mcp"})
        assert admin.call("delete_fork", fork="theirs") == {"deleted": "theirs"}
        client.delete_service(prod.service_id)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("wait", {"service": "absent"}, "No service has the id or the name 'absent'"),
        ("fork", {"service": "shop", "to": "3000-01-01T00:00:00Z"}, "future|restored"),
        ("fork", {"service": "shop", "to": "soon"}, "'soon'"),
        ("fork", {"service": "shop", "to": "5m", "snapshot": "x"}, "Both to and snapshot are given: Give one of them"),
        ("fork", {"service": "shop", "snapshot": "x"}, "has no snapshot with the id or the name 'x'"),
        ("fork", {"service": "shop", "ttl_seconds": 1}, r"'ttl_seconds' is wrong: .*60 \(got 1\)\.$"),
        ("fork", {"service": "shop", "snapshot_id": "x"}, "no argument 'snapshot_id': Did you mean 'snapshot'"),
        ("query", {"service": "shop", "rows": 5}, "no argument 'rows': .*It has max_rows, service, sql, timeout_sec"),
        ("query", {}, "query: the argument 'service' is missing; the argument 'sql' is missing.$"),
        ("query", {"service": "shop", "sql": "SELECT 1", "max_rows": 10**6}, "max_rows"),
        (
            "query",
            {"service": "shop", "sql": "SELECT 1"},
            r"shop accepts no session: localhost:\d+: Connection refused",
        ),
    ],
)
def test_an_error_says_what_is_wrong(admin: Agent, shop: str, tool: str, arguments: dict[str, Any], said: str) -> None:
    assert shop
    with pytest.raises(Refused, match=said) as refused:
        admin.call(tool, **arguments)
    assert "pydantic" not in str(refused.value)
    assert "target_time" not in str(refused.value)


def test_names_in_what_postgresql_says_stay_as_they_are(admin: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise StatementRefused(Complaint("42703", 'column "target_time" does not exist'))

    monkeypatch.setattr("ramet.kits.mcp.tools.find_service", refuse)
    with pytest.raises(Refused, match='column "target_time" does not exist'):
        admin.call("wait", service="shop")


def test_a_key_has_so_many_calls_at_once(world: World) -> None:
    with world.client() as client:
        caller = Caller(client, most_calls=1)
        agent = Agent(build_server(lambda _: caller))
        with caller.call(), pytest.raises(Refused, match="1 calls with this key are under way"):
            agent.call("list_services")
        for _ in range(2):
            assert agent.call("list_services")


def test_keys_are_checked_while_all_threads_of_the_tools_are_in_use() -> None:
    statuses = list[int]()

    def refuse(_: object) -> Caller:
        raise Unauthorized("UNAUTHORIZED", "No such key")

    async def answered(message: Message) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    async def receive() -> Message:
        return {"type": "http.request"}

    async def ask() -> None:
        threads = anyio.to_thread.current_default_thread_limiter()
        for _ in range(int(threads.total_tokens)):
            threads.acquire_on_behalf_of_nowait(object())
        with anyio.fail_after(BOUND_SECONDS):
            await http_application(refuse)({"type": "http", "headers": []}, receive, answered)

    anyio.run(ask)
    assert statuses == [401]


def test_an_argument_that_a_tool_does_not_have_is_refused(admin: Agent) -> None:
    with pytest.raises(Refused, match=r"^fork has no argument 'target_time': Did you mean 'to'"):
        admin.call("fork", service="absent", target_time="5m")
    with pytest.raises(Refused, match=r"^list_services has no argument 'limit': It has none.$"):
        admin.call("list_services", limit=1)


def test_a_fork_that_takes_longer_is_shown_as_it_is(admin: Agent, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise TimedOut("WAIT_TIMED_OUT", "not READY yet")

    assert shop
    with monkeypatch.context() as slow:
        slow.setattr(Client, "wait_ready", late)
        made = admin.call("fork", service="shop", name="slow", wait_seconds=1)
    assert "call wait" in made["next"]
    assert admin.call("wait", service="slow")["status"] == "READY"
    admin.call("delete_fork", fork="slow")


def test_a_login_is_used_again_until_it_is_forgotten(world: World, shop: str) -> None:
    with world.client() as client:
        caller, service = Caller(client), client.get_service(shop)
        first = caller.login(service, 60, read_only=True)
        assert caller.login(service, 60, read_only=True) == first
        assert caller.login(service, 60, read_only=False) != first
        caller.forget_logins(shop)
        assert caller.login(service, 60, read_only=True) != first


def test_a_login_is_not_used_again_by_a_statement_that_may_take_longer_than_it_lasts(
    world: World, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "LOGIN_SECONDS", 300)
    with world.client() as client:
        caller, service = Caller(client), client.get_service(shop)
        first = caller.login(service, 60, read_only=True)
        assert caller.login(service, 400, read_only=True) != first


def test_a_new_login_outlasts_the_longest_statement() -> None:
    assert callers.LOGIN_SECONDS > MOST_SECONDS + GRACE_SECONDS


@pytest.fixture(scope="module")
def address(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where `ramet mcp --http` serves; it has no key of a project but knows the address of Ramet."""
    port = free_port()
    environ = {
        **os.environ,
        **world.environ(),
        "RAMET_SECRET_KEY": "none",
        "HOME": str(tmp_path_factory.mktemp("home")),
    }
    running = subprocess.Popen(
        [sys.executable, "-m", "ramet", "mcp", "--http", str(port)], env=environ, stderr=subprocess.PIPE, text=True
    )
    url = f"http://127.0.0.1:{port}/mcp"

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        eventually(answers)
        yield url
    finally:
        running.terminate()
        running.communicate(timeout=250)


def test_over_http_each_request_acts_with_its_own_key(address: str, world: World, key: str, shop: str) -> None:
    assert Agent(address, key).call("list_services")["services"] == []
    own = f"{world.public_key}:{world.secret.reveal()}"
    assert shop in [one["service_id"] for one in Agent(address, own).call("list_services")["services"]]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer x:y"}, 401), ({"Authorization": "Negotiate abc"}, 401)],
)
def test_over_http_a_request_without_a_good_key_is_refused(address: str, headers: dict[str, str], status: int) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = httpx.post(address, json=call, headers=headers, trust_env=False)
    assert answer.status_code == status
    assert answer.json()["code"] == "UNAUTHORIZED"
    assert "x:y" not in answer.text


def test_a_page_of_another_site_is_refused(address: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}", "Host": "evil.example"}
    assert httpx.post(address, json={}, headers=headers, trust_env=False).status_code == 421


def test_a_proxy_as_the_page_has_it_is_let_in(address: str, key: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    hosts = re.findall(r"^ +(?:proxy_set_header|header_up) Host ([^\s;]+);?$", page, re.MULTILINE)
    assert len(hosts) == 2
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepts = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
    for host in hosts:
        answer = httpx.post(address, json=call, headers={**accepts, "Host": host}, timeout=60, trust_env=False)
        assert (answer.status_code, "list_services" in answer.text) == (200, True)


def test_keys_are_told_apart_and_forgotten_at_last(world: World, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ramet.kits.mcp.callers._MOST_CALLERS", 1)
    callers = CallersByKey(world.base_url, "")
    first, second = ({"authorization": f"Bearer {one}"} for one in (key, f"{world.public_key}:{world.secret.reveal()}"))
    found = [callers(first), callers(first), callers(second), callers(first)]
    assert [one is found[0] for one in found] == [True, True, False, False]
    assert [one.is_forker for one in found] == [True, True, False, True]
    for one in found:
        one.client.close()


def test_without_the_package_the_command_says_how_to_get_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    said = terminal.ramet("mcp")
    assert (said.code, "pip install 'ramet[mcp]'" in said.err) == (1, True)


def test_an_agent_starts_the_command_itself(world: World, tmp_path: Path) -> None:
    hello = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        '"clientInfo":{"name":"t","version":"1"}}}\n'
    )
    environ = {**os.environ, **world.environ(), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "ramet", "mcp"],
        env=environ,
        input=hello,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"serverInfo":{"name":"ramet"' in done.stdout
