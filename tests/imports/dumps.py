"""Dumps of both sides of an import, in the form in which they must be equal."""

import re
import subprocess
from collections.abc import Mapping

from ramet.machine.installation import find_installations

_NOISE = re.compile(r"^(--|\\restrict|\\unrestrict|SET |SELECT pg_catalog\.set_config|$)")
_OURS = re.compile(r"pg_stat_statements|ramet_begin_session")


def dump(major: int, variables: Mapping[str, str], *options: str) -> str:
    """Return what pg_dump of a version says of a database, with everything in it."""
    program = find_installations().by_major[major].program("pg_dump")
    command = [program, "--exclude-schema=timescale_functions", "-b", "--no-subscriptions", *options]
    done = subprocess.run(command, env={**variables}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"pg_dump failed: {done.stderr}")
    return done.stdout


def comparable(text: str, owner: str = "") -> list[str]:
    """Return a dump without comments, settings and what a service has by itself; `owner` is shown as the admin."""
    found = [line for line in text.splitlines() if not (_NOISE.match(line) or _OURS.search(line))]
    return [re.sub(rf"\b{owner}\b", "tsdbadmin", line) for line in found] if owner else found
