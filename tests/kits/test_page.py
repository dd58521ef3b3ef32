"""docs/throw-away-forks.md, followed as it stands there: tests and a command have forks of a real service."""

import re
import sys
from pathlib import Path

import psycopg
import pytest

from harness.instance import running_instance

pytestmark = pytest.mark.slow
_PAGE = Path(__file__).parents[2] / "docs" / "throw-away-forks.md"
_ORDERS = "CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders SELECT generate_series(1, 3)"
_COUNT = "import os, psycopg; print(psycopg.connect(os.environ['DATABASE_URL']).execute('TABLE orders').rowcount)"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_tests_and_commands_have_forks_of_their_own_and_leave_none(
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
        for fork in client.list_services():
            if fork.service_id != made.service_id:
                client.wait_deleted(fork.service_id)
        assert ramet.leftovers() == []
