"""What travels over HTTP, answers and requests, as msgspec structs; openapi.json is made from them.

What checks requests is in `ramet.api.body`. `schemas.services` and the like are imported when they are first used: a
command needs few of them.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ramet.api.schemas import (  # noqa: F401 - for type checkers
        account,
        archive,
        audit,
        events,
        following,
        forks,
        imports,
        insight,
        keys,
        life_spans,
        logins,
        logs,
        metrics,
        moves,
        operations,
        replica_sets,
        replication,
        restore,
        restores,
        service_bodies,
        services,
        settings,
        shared,
        upgrades,
        vpcs,
        warm_forks,
    )


def __getattr__(name: str) -> ModuleType:
    """Import a module of this package."""
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
