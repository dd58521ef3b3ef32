"""What an import would do: a pure function from what was found in the source, and what there is here."""

from collections.abc import Iterator, Sequence

from ramet.backends.interface.sources import LOCALE_PROVIDERS, Destination, SourceFacts
from ramet.endpoints import ADMIN
from ramet.imports.findings import Effect, Finding, in_order, refused
from ramet.model.words import listed

_GIB = 1024**3
# The data itself, the WAL that loading writes, and the copy that pg_dump makes.
ROOM_FACTOR = 2.5
_SHOWN_NAMES = 8
_RESERVED = ("ramet", "pg_ramet_pooler")
_GRANTABLE = ("pg_monitor", "pg_signal_backend", "pg_checkpoint")
_LAST_MAJOR_WITHOUT_WITHHELD_ROLES = 15
_ANY_ENCODING = ("C", "POSIX")


def judge(facts: SourceFacts, destination: Destination, *, owners: bool, pg_major: int | None = None) -> list[Finding]:
    """Return the findings, those that refuse the import first; `pg_major` is the version that was asked for."""
    found = [
        *_version(facts, destination, pg_major),
        *_extensions(facts, destination),
        *_locale(facts, destination),
        *_rights(facts),
        *_superuser_objects(facts),
        *_policies(facts, destination),
        *room(facts.size_bytes, ROOM_FACTOR, "takes up to {} here while it is loaded", destination.free_bytes),
        *(_kept_roles(facts) if owners else _dropped_roles(facts)),
        *_left_out(facts),
        *_notes(facts),
    ]
    return in_order(found)


def _version(facts: SourceFacts, destination: Destination, pg_major: int | None) -> Iterator[Finding]:
    if destination.pg_major is None and pg_major is not None:
        yield refused(
            "version",
            f"the source is PostgreSQL {facts.version}, and pg_dump of version {pg_major}, which was asked for,"
            " does not read it or is not installed",
            f"Ask for version {facts.major} or later, or for none: one that suits the source is chosen then.",
        )
    elif destination.pg_major is None:
        yield refused(
            "version",
            f"the source is PostgreSQL {facts.version}, and the newest one here is {destination.newest_major}",
            f"Install PostgreSQL {facts.major} on the host of Ramet; pg_dump reads no newer servers.",
        )
    elif destination.pg_major != facts.major:
        yield Finding(Effect.NOTED, "version", f"PostgreSQL {facts.version} becomes {destination.pg_major}")


def _extensions(facts: SourceFacts, destination: Destination) -> Iterator[Finding]:
    missing = destination.missing_extensions
    if missing and destination.pg_major is not None:
        yield refused(
            "extensions",
            f"PostgreSQL {destination.pg_major} here does not have {shown_names(missing)}",
            "Install them on the host of Ramet, or drop them in the source.",
        )
    if destination.refused_extensions:
        yield refused(
            "extensions",
            f"services cannot take over {shown_names(destination.refused_extensions)}",
            "Drop them in the source, or in a copy of it: they need a superuser, or more than a copy.",
        )


def _locale(facts: SourceFacts, destination: Destination) -> Iterator[Finding]:
    locale = facts.locale
    is_plain = {locale.collate, locale.ctype} <= set(_ANY_ENCODING)
    if locale.encoding == "SQL_ASCII" or (locale.encoding != "UTF8" and not is_plain):
        yield refused(
            "encoding",
            f"the source has the encoding {locale.encoding} with the locale {locale.collate}, and services have UTF8",
            "Make a UTF8 copy of it: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0; pg_dump; pg_restore.",
        )
    elif locale.encoding != "UTF8":
        yield Finding(Effect.CHANGED, "encoding", f"{locale.encoding} becomes UTF8")
    if locale.provider not in LOCALE_PROVIDERS:
        yield refused(
            "locale provider",
            f"the source has the locale provider {locale.provider[:64]!r}, not {' or '.join(LOCALE_PROVIDERS)}",
            "Make a copy of it with one of these: CREATE DATABASE … TEMPLATE template0; pg_dump; pg_restore.",
        )
    elif destination.locale_problem is not None and destination.pg_major is not None:
        yield refused(
            "locale",
            destination.locale_problem,
            "Install it on the host of Ramet (Debian: locale-gen), or a PostgreSQL with it.",
        )


def _rights(facts: SourceFacts) -> Iterator[Finding]:
    if facts.unreadable:
        yield refused(
            "rights",
            f"the role may not read {shown_names(facts.unreadable)}",
            "Grant it pg_read_all_data (PostgreSQL 14 and later), or import as the owner.",
        )
    if facts.row_secured:
        yield refused(
            "row security",
            f"policies hide rows of {shown_names(facts.row_secured)} from the role",
            "Import as their owner, or as a role with BYPASSRLS.",
        )


def _superuser_objects(facts: SourceFacts) -> Iterator[Finding]:
    if facts.for_superusers:
        yield refused(
            "objects",
            f"only a superuser may create {shown_names([f'{kind} {name}' for kind, name in facts.for_superusers])}",
            "Drop them in the source, or in a copy of it.",
        )


def _policies(facts: SourceFacts, destination: Destination) -> Iterator[Finding]:
    major, names = destination.pg_major, facts.withheld_in_policies
    if names and major is not None and major <= _LAST_MAJOR_WITHOUT_WITHHELD_ROLES:
        yield refused(
            "policies",
            f"policies name {shown_names(names)}, which services of PostgreSQL {major} do not have",
            "Name other roles in the source (ALTER POLICY … TO …), or ask for version 16 or later.",
        )


def room(size_bytes: int, factor: float, takes: str, free_bytes: float) -> Iterator[Finding]:
    """Refuse a source of which a copy, which `takes` so many times its size, has no room here."""
    needed = size_bytes * factor
    if free_bytes < needed:
        yield refused(
            "size",
            f"the source has {shown_gib(size_bytes)}, which {takes.format(shown_gib(needed))},"
            f" and {shown_gib(free_bytes)} are free",
            "Enlarge the storage, or delete services that are not needed.",
        )


def _kept_roles(facts: SourceFacts) -> Iterator[Finding]:
    names = [role.name for role in facts.roles if role.name not in (facts.bootstrap_role, ADMIN)]
    if names:
        yield Finding(
            Effect.CHANGED,
            "roles",
            f"{shown_names(names)} are made without LOGIN and without passwords",
            f"To let one log in, as {ADMIN}: ALTER ROLE … LOGIN PASSWORD '…'.",
        )
    reserved = [role.name for role in facts.roles if role.name in _RESERVED] + [*facts.withheld_owners]
    if reserved or (facts.bootstrap_role in _RESERVED and facts.bootstrap_owns):
        yield refused(
            "roles",
            f"{shown_names(reserved or [facts.bootstrap_role])} is a name that services reserve",
            f"Give its objects another owner, or import with --no-owner: then {ADMIN} owns all.",
        )
    if facts.bootstrap_role not in (*_RESERVED, ADMIN):
        yield Finding(Effect.CHANGED, "owners", f"what {facts.bootstrap_role} owns will belong to {ADMIN}")
    yield from _attributes(facts)


def _attributes(facts: SourceFacts) -> Iterator[Finding]:
    for attribute, has in (
        ("SUPERUSER", "is_superuser"),
        ("REPLICATION", "replicates"),
        ("BYPASSRLS", "bypasses_row_security"),
    ):
        names = [role.name for role in facts.roles if getattr(role, has) and role.name != facts.bootstrap_role]
        if names:
            yield Finding(Effect.CHANGED, "roles", f"{shown_names(names)} will not have {attribute}")
    made = {role.name for role in facts.roles} - {facts.bootstrap_role, ADMIN, *_RESERVED}
    groups = {
        f"{role.name} in {group}"
        for role in facts.roles
        for group in role.member_of
        if role.name != facts.bootstrap_role and group not in {*_GRANTABLE, *made}
    }
    if groups:
        yield Finding(Effect.CHANGED, "roles", f"these memberships are left out: {shown_names(sorted(groups))}")


def _dropped_roles(facts: SourceFacts) -> Iterator[Finding]:
    names = [role.name for role in facts.roles if role.name not in facts.policy_roles]
    if names:
        yield Finding(
            Effect.CHANGED, "owners", f"{ADMIN} will own all; {shown_names(names)} and all privileges are left out"
        )
    if facts.policy_roles:
        yield Finding(
            Effect.CHANGED, "policies", f"{shown_names(facts.policy_roles)} are made without LOGIN: policies name them"
        )


def _left_out(facts: SourceFacts) -> Iterator[Finding]:
    publications = [one.name for one in facts.publications if one.needs_superuser]
    for subject, names, remedy in (
        ("event triggers", facts.event_triggers, "Only superusers may own them."),
        ("subscriptions", facts.subscriptions, "Create them again in the service, if it is to receive the changes."),
        ("publications", publications, "FOR ALL TABLES and IN SCHEMA need a superuser; name the tables instead."),
    ):
        if names:
            yield Finding(Effect.CHANGED, subject, f"{shown_names(names)}: left out", remedy)
    if facts.database_privileges:
        yield Finding(
            Effect.CHANGED,
            "privileges",
            "those on the database itself are left out, so every role that may log in may connect",
            "As tsdbadmin: REVOKE CONNECT ON DATABASE tsdb FROM PUBLIC, and GRANT it to whom you want.",
        )
    if facts.tablespaces:
        yield Finding(
            Effect.CHANGED, "tablespaces", f"{shown_names(facts.tablespaces)}: all goes to the default tablespace"
        )


def _notes(facts: SourceFacts) -> Iterator[Finding]:
    if facts.large_object_count:
        yield Finding(Effect.NOTED, "large objects", f"{facts.large_object_count} are imported")
    if facts.other_databases:
        yield Finding(
            Effect.NOTED,
            "databases",
            f"{shown_names(facts.other_databases)} of the same server: not imported",
            "An import takes the one database that the URL names; import others as services of their own.",
        )


def shown_names(names: Sequence[str]) -> str:
    """Return some names for a sentence, and how many more there are."""
    return listed(names, _SHOWN_NAMES)


def shown_gib(size_bytes: float) -> str:
    """Return a size for a sentence."""
    return f"{size_bytes / _GIB:.1f} GiB"
