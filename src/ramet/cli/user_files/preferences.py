"""The format in which results are printed if a command has no --output."""

import os
from pathlib import Path

from ramet.cli.user_files.files import config_dir, read_values, write_values

FORMATS = ("table", "json", "yaml")
OUTPUT_VARIABLE = "RAMET_OUTPUT"


def preferences_path() -> Path:
    """Return the file of the user's preferences."""
    return config_dir(os.environ) / "preferences.json"


def preferred_output() -> tuple[str, str]:
    """Return the format of results, and where it comes from: RAMET_OUTPUT, else the file. Raises Invalid."""
    if os.environ.get(OUTPUT_VARIABLE):
        return os.environ[OUTPUT_VARIABLE], OUTPUT_VARIABLE
    path = preferences_path()
    saved = (read_values(path, "BAD_PREFERENCES_FILE", "Remove it, or set output again.") or {}).get("output")
    return (FORMATS[0], "default") if saved is None else (saved, str(path))


def save_output(output: str) -> None:
    """Save the format of results."""
    write_values(preferences_path(), {"output": output})
