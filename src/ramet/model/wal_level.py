"""How much a service writes into its WAL: what recovery needs, or what logical replication needs as well."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

_KEY = "wal_level"


class WalLevel(StrEnum):
    """PostgreSQL's wal_level. With `logical` the admin may publish, and other servers may subscribe."""

    REPLICA = "replica"
    LOGICAL = "logical"


def wal_level_of(service_settings: Mapping[str, Any]) -> WalLevel:
    """Return the wal_level of a service by its settings."""
    return WalLevel(service_settings.get(_KEY, WalLevel.REPLICA))


def with_wal_level(service_settings: Mapping[str, Any], wanted: WalLevel) -> dict[str, Any]:
    """Return the settings of a service with this wal_level."""
    others = {name: value for name, value in service_settings.items() if name != _KEY}
    return others if wanted is WalLevel.REPLICA else {**others, _KEY: wanted.value}
