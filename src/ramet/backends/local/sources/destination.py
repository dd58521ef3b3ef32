"""What this host can offer to a database from elsewhere: a version, its extensions, its locale, and space."""

import os
import re
from collections.abc import Iterable

from ramet.backends.interface.sources import Destination, Locale, SourceFacts
from ramet.machine.installation import Installation, Installations
from ramet.machine.programs import complete
from ramet.model.service_type import ServiceType

_TOOLS = ("pg_dump", "pg_restore")
_TRUSTED = re.compile(r"^\s*trusted\s*=\s*(true|on|yes|1|'true')\s*(#.*)?$", re.MULTILINE)
# Not trusted by their authors, though they reach nothing outside of their database.
HARMLESS = frozenset(
    {"autoinc", "bloom", "earthdistance", "insert_username", "moddatetime", "pg_stat_statements", "refint", "vector"}
)
_EVERYWHERE = frozenset({"c", "posix", "c.utf8"})
# Its hypertables take more than pg_dump and pg_restore.
_NEVER = frozenset({"timescaledb"})
_BUILTIN_SINCE, _ICU_BY_DEFAULT_SINCE = 17, 16


def destination_of(
    facts: SourceFacts,
    service_type: ServiceType,
    installations: Installations,
    free_bytes: int,
    pg_major: int | None = None,
) -> Destination:
    """Return what a service for such a database could be here; of the version `pg_major`, unless that is None."""
    found = _installation_for(facts.major, service_type, installations, pg_major)
    newest = max(installations.by_major)
    if found is None:
        return Destination(None, newest, free_bytes)
    names = [one.name for one in facts.extensions]
    present = [name for name in names if found.has_extension(name)]
    return Destination(
        pg_major=found.major,
        newest_major=newest,
        free_bytes=free_bytes,
        missing_extensions=tuple(name for name in names if name not in present),
        refused_extensions=tuple(name for name in present if not _is_allowed(found, name)),
        locale_problem=_locale_problem(facts.locale, found),
    )


def _is_allowed(installation: Installation, extension: str) -> bool:
    return extension not in _NEVER and (extension in HARMLESS or is_trusted(installation, extension))


def is_trusted(installation: Installation, extension: str) -> bool:
    """Tell whether a role without superuser rights may create an extension (PostgreSQL 18 docs, 36.17.1)."""
    control = installation.share / "extension" / f"{extension}.control"
    return control.is_file() and _TRUSTED.search(control.read_text(errors="replace")) is not None


def _installation_for(
    source_major: int, service_type: ServiceType, installations: Installations, pg_major: int | None
) -> Installation | None:
    """Return the default installation, or the oldest one that is not older than the source: pg_dump reads no newer.

    With `pg_major` only that version counts.
    """
    known = [one for one in installations.by_major.values() if pg_major in (None, one.major)]
    usable = [one for one in known if one.major >= source_major and _has_tools(one)]
    default = installations.for_type(service_type)
    return default if default in usable else min(usable, key=lambda one: one.major, default=None)


def _has_tools(installation: Installation) -> bool:
    return all(os.access(installation.program(name), os.X_OK) for name in _TOOLS)


def _locale_problem(locale: Locale, installation: Installation) -> str | None:
    version = f"PostgreSQL {installation.version} in {installation.bin}"
    if locale.provider == "icu":
        return None if _has_icu(installation) else f"its locale {locale.name} needs ICU, which {version} lacks"
    if locale.provider == "builtin":
        return None if installation.major >= _BUILTIN_SINCE else f"its locale {locale.name} needs PostgreSQL 17"
    wanted = {_normalized(name): name for name in (locale.collate, locale.ctype)}
    known = _EVERYWHERE | {_normalized(name) for name in _host_locales()}
    lacking = [name for normalized, name in wanted.items() if normalized not in known]
    return f"this host does not have its locale {' and '.join(lacking)}" if lacking else None


def _has_icu(installation: Installation) -> bool:
    configured = complete([installation.program("pg_config"), "--configure"]).stdout
    if installation.major >= _ICU_BY_DEFAULT_SINCE:
        return "--without-icu" not in configured
    return "--with-icu" in configured


def _host_locales() -> Iterable[str]:
    return complete(["locale", "-a"]).stdout.split()


def _normalized(name: str) -> str:
    language, _, encoding = name.partition(".")
    return f"{language}.{encoding.replace('-', '')}".lower().rstrip(".")
