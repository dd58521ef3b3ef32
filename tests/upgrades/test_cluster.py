"""What an error says of an upgrade that PostgreSQL's tools could not do."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ramet.backends.local.host.paths import ServicePaths
from ramet.backends.local.upgrades.cluster import Cluster, directory_of


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A cluster of which only the paths are known."""
    paths = ServicePaths(tmp_path / "a", tmp_path)
    directory_of(paths).mkdir(parents=True)
    instances = SimpleNamespace(paths=lambda _: paths)
    return Cluster(cast(Any, instances), *cast(Any, (None, SimpleNamespace(service_id="a"), None, None)))


def test_an_error_shows_the_end_of_the_log_the_reports_and_the_errors(cluster: Cluster) -> None:
    (cluster.directory / "pg_upgrade.log").write_text("Checking versions    ok\nfatal\n")
    logs = cluster.paths.root / "data.after/pg_upgrade_output.d/2026/log"
    logs.mkdir(parents=True)
    (logs.parent / "tables.txt").write_text("public.t\n")
    (logs / "pg_upgrade_dump_1.log").write_text("command\npg_dump: error: no\n")
    found = cluster._explanation(cluster.paths.root / "data.after")
    assert found.splitlines() == ["fatal", "tables.txt:", "public.t", "pg_dump: error: no"]


def test_an_error_shows_the_log_where_pg_upgrade_has_made_no_reports(cluster: Cluster) -> None:
    (cluster.directory / "pg_upgrade.log").write_text("no space\n")
    assert cluster._explanation(cluster.paths.root / "data.after") == "no space"


def test_an_error_shows_nothing_of_files_to_which_links_lead(cluster: Cluster, tmp_path: Path) -> None:
    secret, others = tmp_path / "secret", tmp_path / "others"
    secret.write_text("error: a secret\n")
    (others / "log").mkdir(parents=True)
    for name in ("x.txt", "log/x.log"):
        (others / name).write_text("error: a secret\n")
    (cluster.directory / "pg_upgrade.log").symlink_to(secret)
    place = cluster.paths.root / "data.after/pg_upgrade_output.d"
    (place / "2026/log").mkdir(parents=True)
    (place / "2027").symlink_to(others)
    for name in ("x.txt", "log/x.log"):
        (place / "2026" / name).symlink_to(secret)
    assert cluster._explanation(cluster.paths.root / "data.after") == "x.txt:"
