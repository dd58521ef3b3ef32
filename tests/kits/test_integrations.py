"""The actions for GitHub and the template for GitLab, without a database; tests/kits/test_page.py runs all."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import ramet
from ramet.model.labels import LONGEST_VALUE
from ramet.model.names import NAME_LIMIT
from ramet.model.rights import Role
from tests.cli.terminal import Terminal
from tests.cli.world import World
from tests.kits.runners import ROOT, GitHubRunner, action, resolved

_ACTIONS = ("fork", "report", "delete")


def _steps(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = action(name)["runs"]["steps"]
    return found


@pytest.mark.parametrize("name", _ACTIONS)
def test_no_text_of_a_pull_request_becomes_part_of_a_script(name: str) -> None:
    assert action(name)["runs"]["using"] == "composite"
    assert [step["run"] for step in _steps(name) if "${{" in step["run"]] == []
    assert {step["shell"] for step in _steps(name)} == {"bash"}


@pytest.mark.parametrize("name", _ACTIONS)
def test_nothing_is_used_that_is_not_pinned(name: str) -> None:
    assert [step for step in _steps(name) if "uses" in step] == []
    package = action(name)["inputs"].get("package", {"default": f"ramet=={ramet.__version__}"})
    assert package["default"] == f"ramet=={ramet.__version__}"


def test_the_template_for_gitlab_is_pinned_as_well() -> None:
    text = (ROOT / "gitlab" / "ramet.gitlab-ci.yml").read_text()
    assert re.findall(r"RAMET_PACKAGE: (.*)", text) == [f"ramet=={ramet.__version__}"]


def test_a_pull_request_has_one_fork_until_it_is_closed(terminal: Terminal, world: World, tmp_path: Any) -> None:
    with world.client() as client:
        shop = client.wait_ready(client.create_service("shop").service_id)
        key = client.create_key("ci", Role.FORKER, parents=[shop.service_id])
        given = {
            "service": "shop",
            "base-url": world.base_url,
            "project-id": world.project.id,
            "public-key": key.public_key,
            "secret-key": key.secret_key,
        }
        first, second = GitHubRunner(tmp_path, 42), GitHubRunner(tmp_path, 42)
        made = first.use("fork", given)
        assert second.use("fork", {**given, "ttl": "1h"})["service-id"] == made["service-id"]
        fork = client.get_service(made["service-id"])
        assert (fork.name, fork.metadata.labels) == ("shop-123456789-pr-42", {"ci": "shop-123456789-pr-42"})
        assert first.environ == {"DATABASE_URL": made["database-url"]}
        shown = [line for line in first.log.splitlines() if not line.startswith("::add-mask::")]
        password = made["database-url"].split(":")[2].partition("@")[0]
        assert password in first.log
        assert key.secret_key not in first.log
        assert [line for line in shown if password in line] == []
        second.use("delete", given)
        second.use("delete", given)
        client.wait_deleted(fork.service_id)
        assert terminal.ramet("service", "get", fork.service_id).code == 6


def test_repositories_that_share_a_key_have_forks_of_their_own(world: World, tmp_path: Path) -> None:
    with world.client() as client:
        parent = client.wait_ready(client.create_service("shared").service_id)
        given = {
            "service": parent.service_id,
            "base-url": world.base_url,
            "project-id": world.project.id,
            "public-key": world.public_key,
            "secret-key": world.secret.reveal(),
        }
        jobs = [GitHubRunner(tmp_path, 7, *one) for one in (("web", 1), ("web", 2), ("api", 3))]
        made = [job.use("fork", given)["service-id"] for job in jobs]
        assert len(set(made)) == len(made)
        jobs[0].use("delete", given)
        client.wait_deleted(made[0])
        assert [client.get_service(one).status for one in made[1:]] == ["READY", "READY"]


def test_default_names_are_the_same_everywhere_and_within_the_limits(tmp_path: Path) -> None:
    defaults = [action(name)["inputs"]["name"]["default"] for name in _ACTIONS]
    assert len(set(defaults)) == 1
    longest = GitHubRunner(tmp_path, 999_999, "r" * 100, 9_999_999_999)
    assert len(resolved(defaults[0], longest.context)) <= min(NAME_LIMIT, LONGEST_VALUE)
    template = yaml.safe_load((ROOT / "gitlab" / "ramet.gitlab-ci.yml").read_text())
    assert template["variables"]["RAMET_FORK"] == "$CI_PROJECT_PATH_SLUG-$CI_PROJECT_ID-mr-$CI_MERGE_REQUEST_IID"
