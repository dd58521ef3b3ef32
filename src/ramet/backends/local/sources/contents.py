"""The table of contents of a dump, as `pg_restore --list` prints it, divided into what is loaded one after another."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ramet.backends.interface.sources import SourceFacts

# 215; 1259 16385 TABLE public orders app
_ENTRY = re.compile(r"^\d+; (?P<catalog>\d+) (?P<oid>\d+) (?P<what>.*)$")
_PRIVILEGES = ("ACL ", "DEFAULT ACL ")
_REFRESH = "MATERIALIZED VIEW DATA "
# Only superusers may own them, and extensions are made by the platform.
_LEFT_OUT = (
    "EXTENSION ",
    "COMMENT - EXTENSION ",
    "EVENT TRIGGER ",
    "COMMENT - EVENT TRIGGER ",
    "PUBLICATION TABLES IN SCHEMA ",
    "SUBSCRIPTION ",
    "COMMENT - SUBSCRIPTION ",
)
_PUBLICATION, _PUBLICATION_REL = 6104, 6106


@dataclass(frozen=True)
class Contents:
    """Entries of a dump, in its order: schemas, then all other objects and data, privileges, and what needs these.

    The rows of materialized views are queried as their owners, who may need their privileges for that.
    """

    schemas: Sequence[str]
    objects: Sequence[str]
    privileges: Sequence[str]
    refreshes: Sequence[str]


def divide(listing: str, facts: SourceFacts) -> Contents:
    """Divide a listing; what a service cannot have is left out."""
    wanted = [(line, what) for line, what in _entries(listing, facts) if not what.startswith(_LEFT_OUT)]
    last = (*_PRIVILEGES, _REFRESH)
    return Contents(
        [line for line, what in wanted if what.startswith("SCHEMA ")],
        [line for line, what in wanted if not what.startswith(("SCHEMA ", *last))],
        [line for line, what in wanted if what.startswith(_PRIVILEGES)],
        [line for line, what in wanted if what.startswith(_REFRESH)],
    )


def count_tables(contents: Contents) -> int:
    """Return the number of tables whose rows are in the dump."""
    return sum(1 for line in contents.objects if " TABLE DATA " in line)


def _entries(listing: str, facts: SourceFacts) -> Iterator[tuple[str, str]]:
    refused = [one for one in facts.publications if one.needs_superuser]
    publications = {one.oid for one in refused}
    relations = {oid for one in refused for oid in one.relation_oids}
    comments = tuple(f"COMMENT - PUBLICATION {one.name} " for one in refused)
    for line in listing.splitlines():
        entry = _ENTRY.match(line)
        if entry is None:
            continue
        catalog, oid = int(entry["catalog"]), int(entry["oid"])
        is_refused = (catalog == _PUBLICATION and oid in publications) or (
            catalog == _PUBLICATION_REL and oid in relations
        )
        if not (is_refused or entry["what"].startswith(comments or ("\0",))):
            yield line, entry["what"]
