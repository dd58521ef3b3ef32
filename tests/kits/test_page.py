"""docs/throw-away-forks.md, followed as it stands there, and an agent: all have forks of a real service."""

import re
import sys
from pathlib import Path

import psycopg
import pytest

from harness.instance import running_instance
from ramet.client import Client
from ramet.kits.mcp.callers import one_caller
from ramet.kits.mcp.server import build_server
from ramet.model.rights import Role
from tests.kits.agents import Agent, Refused
from tests.kits.runners import GitHubRunner, gitlab_script

pytestmark = pytest.mark.slow
_PAGE = Path(__file__).parents[2] / "docs" / "throw-away-forks.md"
_ORDERS = "CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 3)"
_COUNT = "import os, psycopg; print(psycopg.connect(os.environ['DATABASE_URL']).execute('TABLE orders').rowcount)"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_tests_commands_and_agents_have_forks_of_their_own_and_leave_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(block("toml"))
    (tmp_path / "test_orders.py").write_text(block("python"))
    with running_instance() as ramet, ramet.client() as client:
        made = client.create_service("shop")
        ready = client.wait_ready(made.service_id)
        assert isinstance(made.initial_password, str)
        with psycopg.connect(
            host=ready.endpoint.host,
            port=ready.endpoint.port,
            user="tsdbadmin",
            password=made.initial_password,
            dbname="tsdb",
        ) as shop:
            shop.execute(_ORDERS)
        monkeypatch.setenv("RAMET_CREDENTIALS_FILE", str(ramet.credentials_file))
        pytest_words = (sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-n", "2")
        suite = ramet.run("run", "--fork", "shop", "--", *pytest_words, str(tmp_path))
        assert (suite.returncode, "2 passed" in suite.stdout) == (0, True), suite.stdout + suite.stderr
        counted = ramet.run("run", "--fork", "shop", "--last-snapshot", "--", sys.executable, "-c", _COUNT)
        assert (counted.returncode, counted.stdout) == (0, "3\n"), counted.stderr
        _an_agent_works_in_a_fork(client)
        _a_pull_request_has_a_comment(client, tmp_path)
        for fork in client.list_services():
            if fork.service_id != made.service_id:
                client.wait_deleted(fork.service_id)
        assert ramet.leftovers() == []


def _an_agent_works_in_a_fork(admin: Client) -> None:
    shop = next(one for one in admin.list_services() if one.name == "shop")
    key = admin.create_key("agent", Role.FORKER, parents=[shop.service_id])
    own = Agent(build_server(one_caller(admin)))
    assert own.call("query", service="shop", sql="TABLE orders", max_rows=2)["rows"] == [[1], [2]]
    for statement in (
        "DELETE FROM orders",
        "COMMIT; DELETE FROM orders",
        "COPY orders TO STDOUT",
    ):
        with pytest.raises(Refused, match="PostgreSQL refused the statement"):
            own.call("query", service="shop", sql=statement)
    with pytest.raises(Refused, match="cannot be prepared"):
        own.call("query", service="shop", sql="PREPARE TRANSACTION 'left behind'")
    assert own.call("query", service="shop", sql="SELECT count(*) FROM pg_prepared_xacts")["rows"] == [[0]]
    with Client(admin.base_url, admin.project_id, key.public_key, key.secret_key) as client:
        agent = Agent(build_server(one_caller(client)))
        agent.call("fork", service="shop", name="tries")
        agent.call("checkpoint", fork="tries", name="start")
        assert agent.call("execute", fork="tries", sql="ALTER TABLE orders ADD note text") == {"status": "ALTER TABLE"}
        assert agent.call("execute", fork="tries", sql="DELETE FROM orders") == {"status": "DELETE 3"}
        (orders,) = agent.call("schema", service="tries")["tables"]
        assert orders["columns"] == ["id integer NOT NULL", "note text"]
        assert agent.call("query", service="tries", sql="SELECT * FROM orders")["columns"] == ["id", "note"]
        agent.call("rewind", fork="tries", name="start")
        assert agent.call("query", service="tries", sql="SELECT count(*) FROM orders")["rows"] == [[3]]
        with psycopg.connect(agent.call("connection", service="tries", with_password=True)["uri"]) as session:
            assert session.execute("DELETE FROM orders").rowcount == 3
        with pytest.raises(Refused, match="statement timeout"):
            agent.call("query", service="tries", sql="SELECT pg_sleep(60)", timeout_seconds=1)
        agent.call("delete_fork", fork="tries")


def _a_pull_request_has_a_comment(admin: Client, folder: Path) -> None:
    """The steps of the actions in their order, and those of GitLab's template."""
    shop = next(one for one in admin.list_services() if one.name == "shop")
    key = admin.create_key("ci", Role.FORKER, parents=[shop.service_id])
    keys = {
        "base-url": admin.base_url,
        "project-id": admin.project_id,
        "public-key": key.public_key,
        "secret-key": key.secret_key,
    }
    runner = GitHubRunner(folder, 7)
    url = runner.use("fork", {**keys, "service": "shop"})["database-url"]
    runner.use("report", keys)
    assert "Its schema is that of `shop`." in runner.comments[0]
    with psycopg.connect(url) as session:
        session.execute("ALTER TABLE orders ADD note text; CREATE VIEW noted AS SELECT note FROM orders")
    runner.use("report", keys)
    [comment] = runner.comments
    assert comment.startswith("<!-- ramet: shop-123456789-pr-7 -->\n**`shop-123456789-pr-7`** is a fork of `shop`")
    assert "\n+    note text\n" in comment
    assert "\n+view public.noted\n" in comment
    assert "//" not in comment
    assert key.secret_key not in runner.log
    runner.use("delete", keys)
    environ = {_VARIABLES[name]: value for name, value in keys.items()}
    environ |= {"RAMET_SERVICE": "shop", "RAMET_FORK": "mr-8", "RAMET_LOGIN_FOR": "6h"}
    for job in ("ramet-fork", ".ramet-database", "ramet-delete"):
        runner.run(gitlab_script(job), environ)


_VARIABLES = {
    "base-url": "RAMET_BASE_URL",
    "project-id": "RAMET_PROJECT_ID",
    "public-key": "RAMET_PUBLIC_KEY",
    "secret-key": "RAMET_SECRET_KEY",
}
