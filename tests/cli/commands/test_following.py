"""Services that follow a source, on the command line."""

import subprocess
import sys
from pathlib import Path

from tests.cli.terminal import Terminal
from tests.cli.world import World


def test_a_follower_shows_its_lag_and_says_that_sessions_are_read_only(
    terminal: Terminal, world: World, tmp_path: Path
) -> None:
    world.backend.followers.rows[:] = ["one"]
    (tmp_path / "password").write_text("source\n")
    source = ("--from", "postgresql://replicator@db.example/shop", "--password-file", str(tmp_path / "password"))
    made = terminal.made("service", "follow", "reads-only", *source)
    shown = terminal.ramet("service", "get", "reads-only").out
    assert "replicator@db.example:5432/shop" in shown
    assert "0 bytes, 0.0 s" in shown
    assert "/shop?sslmode=" in terminal.ramet("db", "connection-string", "reads-only").out

    command = [sys.executable, "-m", "ramet", "db", "connect", "reads-only", "--", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert (done.returncode, done.stdout.startswith("psql (PostgreSQL)")) == (0, True)
    assert "follows replicator@db.example:5432/shop, so this session is read-only" in done.stderr
    assert f"ramet service promote {made['service_id']}" in done.stderr

    assert terminal.ramet("service", "promote", "reads-only").code == 0
    assert "follows" not in terminal.ramet("service", "get", "reads-only").out
    assert "/tsdb?sslmode=" in terminal.ramet("db", "connection-string", "reads-only").out
