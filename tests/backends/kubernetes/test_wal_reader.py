"""What the shell of the pod does that reads WAL."""

import os
import subprocess
from pathlib import Path

from ramet.backends.kubernetes.wal_reader import _READ

_PROGRAM = r"""#!/bin/sh
printf '%s|%s|caf\351 \303\251\n' "$TZ" "$*"
echo "it failed" >&2
exit 3
"""


def test_what_is_printed_is_utf8_with_the_status_and_the_errors_at_the_end(tmp_path: Path) -> None:
    program = tmp_path / "pg_waldump"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", "-c", _READ, "read", "0", "<a>0", "--path", "pg wal"]
    run = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert run.stdout == b"<a>0|--path pg wal|caf \nstatus: 3\nit failed\n"
