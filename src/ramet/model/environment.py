"""What a service or a read replica set is used for."""

from enum import StrEnum


class Environment(StrEnum):
    """PROD (protected) or DEV (neutralized when forked)."""

    DEV = "DEV"
    PROD = "PROD"
