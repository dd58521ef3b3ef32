"""The order of the tests of the cluster: what takes longest begins first, so that nothing is waited for at the end."""

import pytest

_FIRST = (
    *(
        f"tests/kubernetes/test_{name}.py"
        for name in ("past", "high_availability", "archive", "control_plane", "copies")
    ),
    *(f"tests/backends/contract/test_{name}.py" for name in ("restore", "servers")),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest modules first."""
    items.sort(
        key=lambda item: _FIRST.index(file) if (file := item.nodeid.partition("::")[0]) in _FIRST else len(_FIRST)
    )
