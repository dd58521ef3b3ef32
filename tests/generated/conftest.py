"""Leaves out the TypeScript client where node or what `script/setup` installs for it is missing."""

import shutil
from pathlib import Path

import pytest

_COMPILER = Path(__file__).parent / "typescript" / "node_modules" / ".bin" / "tsc"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what cannot run here."""
    if shutil.which("node") and _COMPILER.exists():
        return
    left_out = [item for item in items if item.get_closest_marker("typescript")]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
