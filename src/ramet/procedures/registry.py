"""All procedures, ready to run."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import ramet.procedures
from ramet.operations.procedure import Procedure
from ramet.procedures.servers import Steps, Tools


def all_procedures(tools: Tools) -> list[Procedure]:
    """Return every procedure."""
    return [each(tools).procedure() for each in _classes()]


def _classes() -> Iterator[type[Steps]]:
    """Yield the classes of this package that name a procedure."""
    for found in iter_modules(ramet.procedures.__path__, "ramet.procedures."):
        own = [one for one in vars(import_module(found.name)).values() if getattr(one, "__module__", "") == found.name]
        yield from (one for one in own if isinstance(one, type) and issubclass(one, Steps) and hasattr(one, "name"))
