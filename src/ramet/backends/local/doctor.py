"""What this host would give to a data root, found out without changing anything; for a Ramet that is not up."""

from collections.abc import Sequence
from pathlib import Path

from ramet.backends.local.admission import USUAL_RESERVE_PERCENT, LocalAdmission
from ramet.backends.local.host.cgroups import open_limits
from ramet.backends.local.host.paths import digest_of
from ramet.backends.local.pooler.pgbouncer import describe_pgbouncer
from ramet.backends.local.server import read_only_module
from ramet.backends.local.volumes import image as images
from ramet.backends.local.volumes.pool_record import read_record
from ramet.backends.local.volumes.probe import best_driver
from ramet.errors import Failed
from ramet.machine.installation import Installations, extension_of, find_installations
from ramet.model.service_type import ServiceType

_RECORD = "pool.json"
_NOT = "not "


def has_storage(data_root: Path) -> bool:
    """Tell whether storage was ever made in a data root."""
    return (data_root / _RECORD).is_file()


def survey(data_root: Path, memory_reserve_percent: int = USUAL_RESERVE_PERCENT) -> Sequence[tuple[str, str]]:
    """Return what was found as (title, sentence) rows."""
    limits = open_limits(digest_of(data_root))
    rest = [("poolers", describe_pgbouncer()), ("limits", limits.describe())]
    bounds = LocalAdmission(memory_reserve_percent).describe()
    return [("storage", _storage(data_root)), *_postgresql(), *rest, *bounds]


def service_types(installations: Installations) -> str:
    """Say which types of service the installations serve, and what the others lack."""
    found = [_service_type(installations, one) for one in ServiceType]
    served, lacking = ([one for one in found if one.startswith(_NOT) is is_lacking] for is_lacking in (False, True))
    return "; ".join([", ".join(served), *lacking]) + "."


def _service_type(installations: Installations, service_type: ServiceType) -> str:
    extension, serving = extension_of(service_type), installations.for_type(service_type)
    if extension is not None and not serving.has_extension(extension):
        return f"{_NOT}{service_type} (no extension {extension})"
    if serving is installations.default:
        return str(service_type)
    without = "" if serving.has_tls else ", which has no TLS: set RAMET_PLAINTEXT_ENDPOINTS=on"
    return f"{service_type} (on PostgreSQL {serving.version}{without})"


def _postgresql() -> list[tuple[str, str]]:
    try:
        found = find_installations()
    except Failed as error:
        return [("postgresql", str(error))]
    return [
        ("postgresql", ", ".join(f"{one.version} in {one.bin}" for one in found.found)),
        ("types", service_types(found)),
        ("tls", found.describe_tls()),
        ("read-only", read_only_module.describe(found)),
    ]


def _storage(data_root: Path) -> str:
    record = read_record(data_root / _RECORD)
    if record is not None:
        where = f"in the image {record.image}" if record.image else "in the data directory itself"
        return f"{record.driver}, {where}: {record.reason}."
    there = next(path for path in (data_root, *data_root.parents) if path.is_dir())
    try:
        driver = best_driver(there)
    except OSError as error:
        return f"Cannot be probed: {error.strerror} in {there}."
    if driver != "copy":
        return f"It will be {driver}: the file system of {there} shares blocks."
    why = images.why_impossible("xfs")
    if why is None:
        return f"It will be reflink in an XFS image, for the file system of {there} cannot share blocks."
    return f"It will be plain copies: the file system of {there} cannot share blocks, and {why}."
