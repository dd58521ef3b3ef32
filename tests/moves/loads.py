"""A move while clients write: what was confirmed is in the new place, and nothing else."""

from pathlib import Path

import psycopg
import pytest

from harness.instance import Instance, connect
from prove.acknowledged import Writers, content_of, read_notes
from ramet.api.schemas.moves import Move
from ramet.api.schemas.shared import Endpoint
from ramet.client import Secret
from ramet.model.status import OperationStatus


def under_load(here: Instance, there: Instance, service_id: str, at: Endpoint, password: str, notes: Path) -> Move:
    """Move a service while clients write; see that all that was confirmed is there, and nothing that was not sent."""
    writers, key = Writers(at.port, password, notes, host=at.host), there.credentials
    before = rows_at(at, password)
    writers.first = 1 + max((n for _, n in before), default=0)
    with here.client() as client:
        writers.start()
        url = key["base_url"].removesuffix("/public/api/v1")
        name = client.get_service(service_id).name
        begun = client.move_service(service_id, url, key["public_key"], Secret(key["secret_key"]), confirm=name)
        moved = client.wait_moved(service_id, begun.move_id, 300)
    writers.stop()
    assert (moved.status, moved.error, writers.faults) == (OperationStatus.SUCCEEDED, None, [])
    with pytest.raises(psycopg.OperationalError, match=r"Connection refused|server closed the connection"):
        connect(at.port, password, host=at.host, connect_timeout="2").close()
    noted = read_notes(notes)
    assert moved.endpoint is not None
    rows = rows_at(moved.endpoint, password)
    assert len(noted.done) > 10
    assert set(noted.done) | set(before) <= set(rows) <= noted.sent | set(before)
    assert all(content == content_of(one) for one, content in rows.items())
    return moved


def rows_at(at: Endpoint, password: str) -> dict[tuple[int, int], str]:
    """Return the rows of the ledger, none where there is no ledger yet."""
    with connect(at.port, password, host=at.host) as connection:
        if connection.execute("SELECT to_regclass('ledger')").fetchone() == (None,):
            return {}
        return {(w, n): content for w, n, content in connection.execute("SELECT * FROM ledger").fetchall()}
