"""The settings of PostgreSQL that a service has of its own, in the configuration of its server."""

from collections.abc import Mapping

from ramet.backends.interface.values import Server

_PRELOAD = "session_preload_libraries"
_AUTO_EXPLAIN = "auto_explain"
_LARGEST_OF_REPLICAS = ("max_connections", "max_locks_per_transaction")
# Values of parameters may be passwords. What is logged of a statement is masked when it is read.
_LOG = {"log_parameter_max_length": "0"}
_LOG_OF_PLANS = {f"{_AUTO_EXPLAIN}.log_parameter_max_length": "0"}
_LOG_OF_PLANS_SINCE = 16  # before, auto_explain logs no parameters, and warns each client of this setting


def with_own(
    groups: Mapping[str, Mapping[str, str]], server: Server, *, explains: bool = True
) -> dict[str, dict[str, str]]:
    """Return groups of settings, of which those that the service has of its own replace others.

    PostgreSQL takes the last of several values, but reports the others as not applied. A replica takes none of those
    that limit what it can replay: its own are the largest that a primary may have. Where the installation does not have
    auto_explain, so that it `explains` nothing, it is not loaded: no session could begin.
    """
    left_out = () if server.primary is None else _LARGEST_OF_REPLICAS
    settings = {name: value for name, value in server.parameters if name not in left_out}
    if not settings:
        return {title: dict(group) for title, group in groups.items()}
    explained = explains and any(name.startswith(f"{_AUTO_EXPLAIN}.") for name in settings)
    preloaded = [value for group in groups.values() for name, value in group.items() if name == _PRELOAD]
    settings |= _LOG
    if explained:
        settings |= {_PRELOAD: ", ".join([_AUTO_EXPLAIN, *preloaded])}
        settings |= _LOG_OF_PLANS if server.pg_major >= _LOG_OF_PLANS_SINCE else {}
    kept = {title: {n: v for n, v in group.items() if n not in settings} for title, group in groups.items()}
    return {**kept, "Of the service": settings}


def without_module(text: str) -> str:
    """Return a configuration without the module for read-only sessions."""
    return "".join(map(_without_module, text.splitlines(keepends=True)))


def _without_module(line: str) -> str:
    if not line.startswith(f"{_PRELOAD} = "):
        return line
    return f"{_PRELOAD} = '{_AUTO_EXPLAIN}'\n" if _AUTO_EXPLAIN in line.split('"')[0] else ""
