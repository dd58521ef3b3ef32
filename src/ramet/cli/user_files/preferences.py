"""How a user wants results to be printed, where a command is not told."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ramet.cli.user_files.credentials import config_dir, write_values
from ramet.errors import Invalid

FORMATS = ("table", "json", "yaml")
OUTPUT_VARIABLE = "RAMET_OUTPUT"


def preferences_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the user's preferences are kept."""
    return config_dir(environ) / "preferences.json"


def preferred_output(environ: Mapping[str, str] = os.environ) -> str:
    """Return the format for results: that of RAMET_OUTPUT, else the kept one, else a table. Raises Invalid."""
    return environ.get(OUTPUT_VARIABLE) or kept_output(environ) or FORMATS[0]


def kept_output(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the format that the user set once. Raises Invalid when the file cannot be understood."""
    path = preferences_path(environ)
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str]).get("output")
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise Invalid(
            "BAD_PREFERENCES_FILE", f"{path} cannot be understood: {error}", "Remove it, or set output again."
        ) from error


def keep_output(output: str) -> None:
    """Keep the format for results."""
    write_values(preferences_path(), {"output": output})
