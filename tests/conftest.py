"""What holds for every test: a printed seed, and skips that are seen and, in CI as root, are failures."""

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import clusters
from tests.lanes import Watch, starts_servers
from tests.servers import installations

_IS_ROOT = os.geteuid() == 0
_RARE: dict[str, Callable[[], bool]] = {
    "timescaledb": lambda: any(one.has_extension("timescaledb") for one in installations().found),
    "xfs_quota": Path("/proc/fs/xfs/xqm").exists,
    "promtool": lambda: shutil.which("promtool") is not None,
    "kubernetes": lambda: os.environ.get("RAMET_TEST_KUBERNETES") in ("yes", "all"),
}
_SHARING = ("conformance", "crash", "proofs")
# A status that pytest does not have: failed tests, which TESTS_FAILED would mean, are run once more by script/test.
SKIPPED = 10
hypothesis.settings.register_profile(  # no test depends on how fast the machine is
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")
_MAY_SKIP = not (_IS_ROOT and os.environ.get("CI") == "true")


def pytest_configure(config: pytest.Config) -> None:
    """In the fast lane, watch what the tests start."""
    if "not servers" in config.option.markexpr:
        config.pluginmanager.register(Watch())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark what starts servers. Deselect, not skip, what needs something that no package of a distribution brings.

    When all is shuffled, the tests that share a running Ramet come together again: it ends with the last of them.
    """
    for item in items:
        if starts_servers(item):
            item.add_marker("servers")
    lacking = [marker for marker, is_there in _RARE.items() if not is_there()]
    needing = [item for item in items if any(item.get_closest_marker(marker) for marker in lacking)]
    config.hook.pytest_deselected(items=needing)
    items[:] = [item for item in items if item not in needing]
    yield
    firsts: dict[str, int] = {}
    places = {}
    for number, item in enumerate(items):
        folder = item.path.parent.name
        places[item] = firsts.setdefault(folder, number) if folder in _SHARING else number
    items.sort(key=places.__getitem__)


def pytest_collection_finish() -> None:
    """Leave what was collected out of the garbage collection, which else takes an eighth of the tests' CPU time."""
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what only root can do."""
    if item.get_closest_marker("root") and not _IS_ROOT:
        pytest.skip("needs root")


@pytest.fixture(scope="session", autouse=True)
def _copied_clusters() -> Iterator[None]:
    """Run initdb once for the services of this process; those of `ramet up` run it each time."""
    with clusters.copied():
        yield


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell a run in which something was skipped on a host that lacks nothing, or that ended early, from others."""
    if session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return
    if not _MAY_SKIP and _skipped(session.config):
        session.exitstatus = SKIPPED
    elif session.shouldfail or session.shouldstop:  # -x, --maxfail
        session.exitstatus = pytest.ExitCode.INTERRUPTED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the seed, which -q leaves out, and how to run the same order again."""
    seed = config.getoption("randomly_seed", None)
    if seed is not None:
        terminalreporter.write_line(f"seed: run the same again with --randomly-seed={seed}")
    if not _MAY_SKIP and _skipped(config):
        terminalreporter.write_line("FAILED: CI=true as root allows no skips", red=True)


def _skipped(config: pytest.Config) -> list[object]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return list(reporter.stats.get("skipped", [])) if reporter else []
