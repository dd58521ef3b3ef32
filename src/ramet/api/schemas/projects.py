"""The schema of a project."""

from msgspec import Struct


class Project(Struct, frozen=True):
    """A project: it holds services."""

    id: str
    name: str
