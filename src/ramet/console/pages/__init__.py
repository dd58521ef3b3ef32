"""The pages: each module of this package has the handlers of one subject."""

from importlib import import_module
from pkgutil import iter_modules

from litestar.handlers import BaseRouteHandler


def handlers() -> list[BaseRouteHandler]:
    """Return the handlers of all pages."""
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    return [one for module in modules for one in vars(module).values() if isinstance(one, BaseRouteHandler)]
