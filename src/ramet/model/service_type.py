"""The type of a service, which clients name too."""

from enum import StrEnum


class ServiceType(StrEnum):
    """What the database is made for; decides which extensions it is created with."""

    TIMESERIESDB = "TIMESERIESDB"
    POSTGRES = "POSTGRES"
    VECTOR = "VECTOR"
