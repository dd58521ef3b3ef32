"""What the doctor says of the types of service that a host can run."""

from pathlib import Path

from ramet.backends.local.doctor import service_types
from ramet.machine.installation import Installation, Installations


def _installation(directory: Path, major: int, *, has_tls: bool) -> Installation:
    return Installation(directory, directory, directory, major, 2, has_tls)


def test_a_type_that_another_installation_serves_is_named_with_it(tmp_path: Path) -> None:
    (tmp_path / "extension").mkdir()
    (tmp_path / "extension" / "vector.control").touch()
    usual = _installation(Path("/usual"), 15, has_tls=True)
    without = Installations((usual, _installation(tmp_path, 18, has_tls=False)))
    said = service_types(without)
    assert "VECTOR (on PostgreSQL 18.2, which has no TLS: set RAMET_PLAINTEXT_ENDPOINTS=on)" in said
    assert "not TIMESERIESDB (no extension timescaledb)" in said
    assert said.startswith("POSTGRES, VECTOR (")
    assert said.endswith("; not TIMESERIESDB (no extension timescaledb).")
    assert "not VECTOR (no extension vector)" in service_types(Installations((usual,)))
