"""The bench's own arithmetic, and that it runs: what it finds is not judged here."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from bench.__main__ import BENCHES, bounded
from bench.report import Report, percentile


def test_a_report_ends_in_one_object_of_the_agreed_shape() -> None:
    report = Report("fork-idle")
    report.add("now", 100, [3.0, 1.0, 2.0])
    report.add("floor", 100, [1.0])
    report.ratio("now_vs_floor", report.median("now"), report.median("floor"))
    found = json.loads(report.as_json())
    assert found["bench"] == "fork-idle"
    assert found["rows"][0] == {
        "method": "now", "size_mb": 100, "median_ms": 2.0, "min_ms": 1.0, "max_ms": 3.0, "n": 3,
    }  # fmt: skip
    assert found["ratios"] == {"now_vs_floor": 2.0}
    assert found["machine"]["cpus"] == os.cpu_count()


def test_what_was_not_measured_has_no_row_and_no_ratio() -> None:
    report = Report("fork-idle")
    report.add("pgbackrest", 100, [])
    report.ratio("pgbackrest_vs_now", report.median("pgbackrest"), report.median("now"))
    assert not report.rows
    assert not report.ratios


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([5.0, 1.0, 3.0], 0.5) == 3.0
    assert percentile([5.0, 1.0, 3.0], 0.99) == 5.0
    assert percentile([7.0], 0.99) == 7.0


def test_what_runs_too_long_is_ended_and_cleans_up() -> None:
    cleaned = []

    def endless() -> None:
        try:
            signal.pause()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned.append(True)

    with pytest.raises(SystemExit, match="did not end within 1 s"), bounded(1):
        endless()
    assert cleaned


def test_every_bench_of_the_issue_has_its_name() -> None:
    wanted = {
        *("archive", "fork-idle", "fork-loaded", "stall", "pitr", "rewind", "list", "space", "density", "batch"),
        "fixture",
        "startup",
        "tax",
        "warm",
    }
    assert set(BENCHES) == wanted


@pytest.mark.root
@pytest.mark.slow
def test_a_bench_runs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    place = Path("/var/tmp") / f"ramet-{tmp_path.name}"
    command = ["script/bench", "space", "--quick", "--json", "--size", "20", "--data", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ratios"]["exclusive_mb_at_ready"] > 0
    assert not place.exists()
