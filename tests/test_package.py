"""The package as a whole: its version, its modules and its lock."""

import importlib
import pkgutil
import re
import subprocess
import sys
from importlib.metadata import requires, version
from pathlib import Path

import pytest

import ramet

ROOT = Path(__file__).parents[1]
# Alembic loads its migrations itself, and __main__ is there to be run.
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(ramet.__path__, "ramet.")
    if ".migrations." not in module.name and not module.name.endswith("__main__")
)


def test_the_package_that_is_built_has_the_version_of_the_code() -> None:
    assert version("ramet") == ramet.__version__


@pytest.mark.parametrize(
    ("imported", "slow"),
    [
        ("ramet.__main__", {"click", "ramet.cli"}),
        ("ramet.cli.commands", {"httpx", "rich", "yaml", "sqlalchemy", "litestar", "importlib.metadata"}),
        ("ramet.client", {"httpx", "sqlalchemy", "litestar", "psycopg", "ramet.control", "ramet.store"}),
        ("ramet.client", {"http.client", "email", "ssl", "hashlib", "secrets", "ramet.model.passwords"}),
        (
            "ramet.cli.commands.services, ramet.cli.commands.forks",
            {"rich", "yaml", "difflib", "logging", "ramet.model.service", "ramet.api.schemas.forks"},
        ),
        (
            "ramet.cli.commands.services, ramet.cli.commands.forks",
            {"ssl", "http.client", "hashlib", "secrets", "string", "click.shell_completion", "ramet.model.lineage"},
        ),
        ("ramet.cli.commands.services, ramet.cli.commands.forks", {"ramet.api.schemas.life_spans"}),
        ("ramet.cli.commands.forks", {"ramet.cli.ui.service_views"}),
        ("ramet.cli.commands.creations", {"rich", "ramet.api.schemas.imports", "ramet.cli.ui.service_views"}),
        ("ramet.cli.host.ending, ramet.cli.host.archive_key", {"sqlalchemy", "litestar", "lightkube", "ramet.app"}),
        ("ramet.cli.host.recover", {"litestar", "lightkube", "ramet.app"}),
        ("ramet.app", {"lightkube"}),
        ("ramet.kits.pytest_plugin", {"httpx", "psycopg", "ramet.client"}),
    ],
)
def test_what_starts_often_does_not_import_what_is_slow(imported: str, slow: set[str]) -> None:
    program = f"import sys, {imported}; print(sorted({slow!r} & set(sys.modules)))"
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=False)
    assert (seen.stdout, seen.stderr) == ("[]\n", "")


@pytest.mark.parametrize("name", MODULES)
def test_every_module_can_be_imported_and_says_what_it_is_for(name: str) -> None:
    assert importlib.import_module(name).__doc__


def test_importing_all_modules_starts_nothing() -> None:
    program = (
        f"import importlib, threading\nfor name in {MODULES!r}: importlib.import_module(name)\n"
        "assert threading.active_count() == 1, threading.enumerate()"
    )
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=False)
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, "", "")


def test_every_dependency_is_locked_with_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    locked = set(re.findall(r"^([a-z0-9-]+)==[^\n]*\\\n    --hash=sha256:", lock, flags=re.MULTILINE))
    named = {re.split(r"[^A-Za-z0-9-]", requirement)[0].lower() for requirement in requires("ramet") or []}
    assert named - locked == set()


@pytest.mark.parametrize("lock", ["requirements.lock", "script/uv-bootstrap.lock"])
def test_a_lock_names_no_host(lock: str) -> None:
    assert re.search(r"://|index-url|find-links", (ROOT / lock).read_text()) is None
