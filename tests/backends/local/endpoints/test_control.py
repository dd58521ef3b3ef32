"""Talking to the process of the endpoints, which ends when it has none, without that process."""

from pathlib import Path
from typing import Any

import pytest

from ramet.backends.local.endpoints.control import Control
from ramet.backends.local.host.system_user import server_account
from ramet.errors import Unavailable


def test_a_request_outlives_the_end_of_the_process_and_the_removal_of_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[OSError] = [ConnectionAbortedError("it has just ended"), FileNotFoundError("its directory is gone")]

    def exchange(_control: Control, request: dict[str, Any], _seconds: float) -> dict[str, Any]:
        if faults:
            raise faults.pop(0)
        return request

    monkeypatch.setattr(Control, "_ensure", lambda _control: None)
    monkeypatch.setattr(Control, "_exchange", exchange)
    control = Control(tmp_path / "process", server_account())
    assert control.ask("known") == {"do": "known"}
    faults[:] = [ConnectionRefusedError("it hangs")] * 10
    with pytest.raises(Unavailable):
        control.ask("known")
