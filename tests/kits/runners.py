"""What runs steps of CI for tests as GitHub's runner and GitLab's do: with a shell, files and variables."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2] / "integrations"
_EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")
_BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
# `gh` as far as the action uses it: it keeps the comments of a pull request in a file.
_GH = """#!{python}
import json, pathlib, re, sys
words, kept = sys.argv[1:], pathlib.Path({kept!r})
comments = json.loads(kept.read_text()) if kept.exists() else []
body = next((pathlib.Path(one[6:]).read_text() for one in words if one.startswith("body=@")), None)
if body is None:
    marker = re.search(r'startswith\\("(.*)"\\)', words[-1])[1]
    print(*(n for n, one in enumerate(comments, 1) if one.startswith(marker)), sep="\\n", end="")
elif "PATCH" in words:
    comments[int(words[-3].rpartition("/")[2]) - 1] = body
else:
    comments.append(body)
kept.write_text(json.dumps(comments))
"""


def action(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "github" / name / "action.yml").read_text())
    return found


@dataclass
class GitHubRunner:
    """One job of a repository: its variables, and what its steps print. `folder` is its temporary directory."""

    folder: Path
    number: int
    repository: str = "shop"
    repository_id: int = 123456789
    environ: dict[str, str] = field(default_factory=dict)
    log: str = ""

    def __post_init__(self) -> None:
        gh = self.folder / "gh"
        gh.write_text(_GH.format(python=sys.executable, kept=str(self.folder / "comments.json")))
        gh.chmod(0o755)

    @property
    def context(self) -> dict[str, str]:
        """What GitHub tells the job of its pull request."""
        return {
            "github.event.pull_request.number": str(self.number),
            "github.event.repository.name": self.repository,
            "github.repository_id": str(self.repository_id),
            "github.token": "token",
        }

    @property
    def comments(self) -> list[str]:
        found: list[str] = json.loads((self.folder / "comments.json").read_text())
        return found

    def use(self, name: str, given: Mapping[str, str]) -> dict[str, str]:
        """Run the steps of an action with inputs, and return its outputs."""
        made, known = action(name), self.context
        for key, one in made["inputs"].items():
            assert key in given or not one.get("required"), key
            known[f"inputs.{key}"] = given.get(key, resolved(one.get("default", ""), known))
        for step in made["runs"]["steps"]:
            variables = {name: resolved(value, known) for name, value in step.get("env", {}).items()}
            variables["GITHUB_ACTION_PATH"] = str(ROOT / "github" / name)
            outputs = self.run(step["run"], variables)
            known |= {f"steps.{step.get('id')}.outputs.{name}": value for name, value in outputs.items()}
        return {name: resolved(one["value"], known) for name, one in made.get("outputs", {}).items()}

    def run(self, script: str, variables: Mapping[str, str]) -> dict[str, str]:
        """Run a script as a step, and return its outputs. Its failure is a failure of the test."""
        files = {name: self.folder / name.lower() for name in ("GITHUB_ENV", "GITHUB_OUTPUT")}
        for file in files.values():
            file.write_text("")
        environ = {
            "HOME": str(self.folder),
            "PATH": os.pathsep.join((str(self.folder), str(Path(sys.executable).parent), os.environ["PATH"])),
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_REPOSITORY": f"owner/{self.repository}",
            **{name: str(file) for name, file in files.items()},
            **self.environ,
            **variables,
        }
        done = subprocess.run([*_BASH, script], env=environ, capture_output=True, text=True, timeout=180, check=False)
        self.log += done.stdout + done.stderr
        assert done.returncode == 0, self.log
        self.environ |= _pairs(files["GITHUB_ENV"])
        return _pairs(files["GITHUB_OUTPUT"])


def resolved(text: str, known: Mapping[str, str]) -> str:
    """Return a text with the values of its expressions."""
    return _EXPRESSION.sub(lambda found: known[found[1]], str(text))


def _pairs(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def gitlab_script(job: str) -> str:
    """Return what a job of the template runs, as one script."""
    return "\n".join(gitlab_steps(job))


def gitlab_steps(job: str) -> list[str]:
    """Return what a job of the template runs, command by command."""
    jobs: dict[str, Any] = yaml.safe_load((ROOT / "gitlab" / "ramet.gitlab-ci.yml").read_text())
    before = jobs[job].get("before_script") or jobs[jobs[job].get("extends", job)]["before_script"]
    return [*before, *jobs[job].get("script", ())]
