"""What a service or a read replica set is used for."""

from enum import StrEnum


class Environment(StrEnum):
    """PROD (a restore or a move needs its name) or DEV (neutralized when forked)."""

    DEV = "DEV"
    PROD = "PROD"
