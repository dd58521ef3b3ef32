"""A proof that somebody interrupts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.waiting import BOUND_SECONDS, eventually

pytestmark = pytest.mark.slow
# Who runs in the background of a shell is deaf to Ctrl-C, and so are its children.
PROVE = """
import signal, sys
from prove.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


@pytest.mark.parametrize("proof", ["crash", "storm", "crowd"])
def test_a_proof_that_is_interrupted_at_its_start_says_so_and_leaves_nothing(tmp_path: Path, proof: str) -> None:
    ground = tmp_path / "ground"
    ground.mkdir()
    tmp_path.chmod(0o711)
    begun = subprocess.Popen(
        [sys.executable, "-c", PROVE, proof, "--data", str(ground)],
        stderr=subprocess.PIPE,
        text=True,
    )
    with begun:
        try:
            eventually(lambda: any(ground.glob("*/ramet.log")), "its Ramet", 0.0005)
            os.kill(begun.pid, signal.SIGINT)
            _, said = begun.communicate(timeout=BOUND_SECONDS)
        finally:
            begun.kill()
    assert begun.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert list(ground.iterdir()) == []
