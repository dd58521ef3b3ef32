"""The actions for GitHub and the template for GitLab, without a database; tests/kits/test_page.py runs all."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.waiting import eventually
from ramet.control.sleep import submit_sleep
from ramet.model.labels import LONGEST_VALUE
from ramet.model.names import NAME_LIMIT
from ramet.model.rights import Role
from tests.cli.terminal import Terminal
from tests.cli.world import World
from tests.kits.runners import ROOT, GitHubRunner, action, gitlab_script, gitlab_steps, resolved

_ACTIONS = ("fork", "report", "delete")
_NUMBER = "github.event.pull_request.number"


def _steps(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = action(name)["runs"]["steps"]
    return found


@pytest.mark.parametrize("name", _ACTIONS)
def test_no_text_of_a_pull_request_becomes_part_of_a_script(name: str) -> None:
    assert action(name)["runs"]["using"] == "composite"
    assert [step["run"] for step in _steps(name) if "${{" in step["run"]] == []
    assert {step["shell"] for step in _steps(name)} == {"bash"}


@pytest.mark.parametrize("name", _ACTIONS)
def test_no_other_action_is_used(name: str) -> None:
    assert [step for step in _steps(name) if "uses" in step] == []


@pytest.mark.parametrize("name", _ACTIONS)
def test_an_action_installs_the_commit_that_it_is_of(name: str, tmp_path: Path) -> None:
    """No package of the name is on PyPI: whoever registered it would run code in jobs that have the key."""
    assert action(name)["inputs"]["package"]["default"] == ""
    path = tmp_path / "path"
    place = {
        "GITHUB_ACTION_PATH": str(ROOT / "github" / name),
        "GITHUB_PATH": str(path),
        "RUNNER_TEMP": str(tmp_path),
        "RAMET_PACKAGE": "",
    }
    script = _steps(name)[0]["run"]
    checkout = Path(_installed(script, place, tmp_path))
    assert checkout.resolve() == ROOT.parent
    assert 'name = "ramet"' in (checkout / "pyproject.toml").read_text()
    [folder] = path.read_text().splitlines()
    assert [one.name for one in Path(folder).iterdir()] == ["ramet"]
    assert Path(folder, "ramet").exists()
    assert _installed(script, {**place, "RAMET_PACKAGE": "ramet @ file:///own"}, tmp_path) == "ramet @ file:///own"


@pytest.mark.parametrize("job", ["ramet-fork", ".ramet-database", "ramet-report", "ramet-delete"])
def test_a_job_of_gitlab_installs_what_the_project_names_and_nothing_else(job: str, tmp_path: Path) -> None:
    script = gitlab_steps(job)[0]
    package = "git+https://example.com/owner/ramet@0123456789"
    variables = {"RAMET_PACKAGE": package, "TMPDIR": str(tmp_path)}
    installed, *there = _installed(script + 'command -v ramet; ls "${PATH%%:*}"', variables, tmp_path).splitlines()
    assert (installed, there[1:]) == (package, ["ramet"])
    assert Path(there[0]).parent.name == "bin"
    assert [one.name for one in tmp_path.iterdir()] == ["programs"]
    with pytest.raises(subprocess.CalledProcessError) as failed:
        _installed(script, {}, tmp_path)
    assert "RAMET_PACKAGE: must name the commit of Ramet to install" in failed.value.stderr


# A Python as Debian's is: it makes virtual environments, and only those take packages.
_PYTHON = """#!/bin/bash -e
[ "$1 $2" = "-m venv" ] || { echo "error: externally-managed-environment" >&2; exit 1; }
mkdir -p "$3/bin"
printf '#!/bin/bash\\ntouch "${0%%/*}/ramet"; chmod +x "${0%%/*}/ramet"; echo "${@: -1}"\\n' >"$3/bin/python3"
chmod +x "$3/bin/python3"
"""


def _installed(script: str, variables: Mapping[str, str], folder: Path) -> str:
    """Return what a script has pip install on a machine without the command ramet, and what else it prints."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("bash", "chmod", "ln", "ls", "mkdir", "mktemp", "rm", "touch"):
        if not (programs / name).exists():
            (programs / name).symlink_to(shutil.which(name) or name)
    (programs / "python3").write_text(_PYTHON)
    (programs / "python3").chmod(0o755)
    environ = {"PATH": str(programs), **variables}
    done = subprocess.run(["/bin/bash", "-ec", script], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


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


def _given(world: World, service: str) -> dict[str, str]:
    return {
        "service": service,
        "base-url": world.base_url,
        "project-id": world.project.id,
        "public-key": world.public_key,
        "secret-key": world.secret.reveal(),
    }


def test_the_password_of_a_fork_is_neither_saved_nor_shown(world: World, tmp_path: Path) -> None:
    with world.client() as client:
        parent = client.wait_ready(client.create_service("open").service_id)
    homes = (tmp_path / "home", Path("/proc"))  # nobody can write into the second one
    homes[0].mkdir()
    given = _given(world, parent.service_id)
    variables = {f"RAMET_{name.replace('-', '_').upper()}": value for name, value in given.items()}
    for number, home in enumerate(homes):
        runner = GitHubRunner(tmp_path, number, environ={"HOME": str(home)})
        runner.use("fork", given)
        runner.run(gitlab_script("ramet-fork"), variables | {"RAMET_FORK": f"mr-{number}"})
        assert "password" not in runner.log
    assert [file for file in homes[0].rglob("*") if "pass" in file.name] == []


def test_a_fork_that_fell_asleep_is_woken_for_the_next_job(world: World, tmp_path: Path) -> None:
    world.runtime.projects.change_limits(world.project.id, {"fork_sleep_after_seconds": 900})
    with world.client() as client:
        parent = client.wait_ready(client.create_service("parent").service_id)
        key = client.create_key("ci", Role.FORKER, parents=[parent.service_id])
        given = _given(world, parent.service_id) | {"public-key": key.public_key, "secret-key": key.secret_key}
        fork = GitHubRunner(tmp_path, 43).use("fork", given)["service-id"]
        assert submit_sleep(world.runtime.plane, fork)
        eventually(lambda: client.get_service(fork).metadata.sleeping)
        assert GitHubRunner(tmp_path, 43).use("fork", given)["service-id"] == fork
        assert not client.get_service(fork).metadata.sleeping


def test_branches_without_a_pull_request_do_not_share_a_fork(world: World, tmp_path: Path) -> None:
    runner = GitHubRunner(tmp_path, 0)
    name = resolved(action("fork")["inputs"]["name"]["default"], {**runner.context, _NUMBER: ""})
    with pytest.raises(AssertionError):
        runner.use("fork", _given(world, "shop") | {"name": name})
    assert "the input name must name the fork" in runner.log
    with world.client() as client:
        assert name not in [one.name for one in client.list_services()]


def test_repositories_that_share_a_key_have_forks_of_their_own(world: World, tmp_path: Path) -> None:
    with world.client() as client:
        parent = client.wait_ready(client.create_service("shared").service_id)
        given = _given(world, parent.service_id)
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


@pytest.mark.parametrize("job", ["ramet-fork", "ramet-delete"])
def test_pipelines_of_one_merge_request_make_and_delete_its_fork_one_after_the_other(job: str) -> None:
    """A deletion that overtakes a fork finds nothing to delete, and the fork stays."""
    template = yaml.safe_load((ROOT / "gitlab" / "ramet.gitlab-ci.yml").read_text())
    assert template[job]["resource_group"] == "$RAMET_FORK"


def test_the_job_that_deletes_a_fork_can_be_started_where_tests_have_failed() -> None:
    """GitLab skips the jobs of later stages then: a job of an earlier stage, such as the one that forks, it starts."""
    template = yaml.safe_load((ROOT / "gitlab" / "ramet.gitlab-ci.yml").read_text())
    assert template["ramet-fork"]["environment"]["on_stop"] == "ramet-delete"
    assert template["ramet-delete"]["stage"] == template["ramet-fork"]["stage"]
    assert template["ramet-delete"]["rules"][0]["allow_failure"]  # else the pipeline would wait for it in that stage
