"""The kits are tried against the same server as the command line."""

from tests.cli.conftest import terminal, world

__all__ = ["terminal", "world"]
