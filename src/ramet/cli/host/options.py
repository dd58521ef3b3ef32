"""Options of the commands that work on this host: each overrides a setting."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ramet.settings import describe_settings

Command = TypeVar("Command", bound=Callable[..., Any])


def setting_option(name: str) -> Callable[[Command], Command]:
    """Add the option of a setting, which overrides its variable; the command gets it as it was typed."""
    setting = describe_settings()[name]
    meaning = f"{setting.meaning[:1].upper()}{setting.meaning[1:]}."
    return click.option(f"--{name.replace('_', '-')}", help=f"{meaning}  [default: {setting.default}]")
