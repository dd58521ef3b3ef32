"""Whether a standby of a source can be made here: a pure function from what was found in both places."""

from collections.abc import Iterator

from ramet.backends.interface.followers import HostFacts, UpstreamFacts
from ramet.endpoints import DATABASE
from ramet.imports.findings import Effect, Finding, in_order, refused
from ramet.imports.report import room, shown_names
from ramet.model.service_type import ServiceType
from ramet.model.upstream import MOST_ORIGINS

# The data, the WAL that arrives during the copy, and a share for the first snapshots.
ROOM_FACTOR = 1.3
SEGMENT_BYTES = 16 * 1024**2
BLOCK_BYTES = 8192
_UNKNOWN = "unknown"
_MAINTENANCE_DATABASE = "postgres"
_REFRESH = "After the promotion: REINDEX indexes on text, then ALTER DATABASE … REFRESH COLLATION VERSION."
_ALWAYS_REPLAYED = ("off", "on", "pglz")
_TIMESCALEDB = "timescaledb"
# Encodings in which a name has the bytes that Ramet sends.
_AS_SENT = ("UTF8", "SQL_ASCII")


def judge(
    facts: UpstreamFacts, host: HostFacts, *, slot: str | None, makes_slot: bool = False, pg_major: int | None = None
) -> list[Finding]:
    """Return the findings, those that refuse it first. It would use `slot`, or with `makes_slot` one of its own.

    `pg_major` is the version that was asked for.
    """
    found = [
        *_version(facts, host, pg_major),
        *_replication(facts, host),
        *_layout(facts),
        *_contents(facts, host),
        *_entry(facts),
        *room(facts.size_bytes, ROOM_FACTOR, "takes {} here with its WAL", host.free_bytes),
        *_slot(facts, slot, makes_slot=makes_slot),
        *_archive(host),
        *_notes(facts, host),
    ]
    return in_order(found)


def type_of_standby(facts: UpstreamFacts, asked: ServiceType) -> ServiceType:
    """Return the type of a standby. A server without the library of TimescaleDB does not return compressed rows."""
    return ServiceType.TIMESERIESDB if _TIMESCALEDB in facts.extensions else asked


def _version(facts: UpstreamFacts, host: HostFacts, pg_major: int | None) -> Iterator[Finding]:
    if pg_major not in (None, facts.major):
        yield refused(
            "version",
            f"version {pg_major} was asked for, and a standby has the major version of its source, {facts.major}",
            "Ask for no version and upgrade the service after its promotion, or follow with the method LOGICAL.",
        )
    if facts.major not in host.majors:
        majors = ", ".join(map(str, host.majors))
        yield refused(
            "version",
            f"the source is PostgreSQL {facts.version}, and the versions here are {majors}",
            f"Install PostgreSQL {facts.major} on the host of Ramet; a standby needs the same major version.",
        )
    if facts.machine != host.machine:
        yield refused(
            "architecture",
            f"the source runs on {facts.machine or _UNKNOWN}, and this host is {host.machine}",
            "Import it instead: ramet service import.",
        )
    if host.transport_problem is not None:
        yield refused(
            "TLS",
            host.transport_problem,
            f"Install PostgreSQL {facts.major} with TLS (Debian: postgresql-{facts.major}), or use sslmode=disable.",
        )


def _replication(facts: UpstreamFacts, host: HostFacts) -> Iterator[Finding]:
    if facts.replication_problem is not None:
        yield refused(
            "replication",
            f"the role may not stream from the source: {facts.replication_problem}",
            "There: ALTER ROLE … REPLICATION, and 'hostssl replication ROLE ADDRESS scram-sha-256' in pg_hba.conf.",
        )
    if facts.settings.get("wal_level") == "minimal":
        yield refused(
            "wal_level",
            "wal_level is minimal in the source, and must be replica or logical",
            "There: ALTER SYSTEM SET wal_level = replica, and restart it.",
        )
    if facts.settings.get("full_page_writes") == "off":
        yield refused(
            "full_page_writes",
            "full_page_writes is off in the source: no snapshot of a standby could be taken",
            "There: ALTER SYSTEM SET full_page_writes = on, and reload it.",
        )
    compression = facts.settings.get("wal_compression", "off")
    can_replay = compression in _ALWAYS_REPLAYED or compression in host.wal_compressions
    if facts.major in host.majors and not can_replay:
        yield refused(
            "wal_compression",
            f"wal_compression is {compression} in the source, which PostgreSQL {facts.major} here cannot replay",
            f"Install PostgreSQL {facts.major} with {compression} (Debian: postgresql-{facts.major}), or there:"
            " ALTER SYSTEM SET wal_compression = pglz, and reload it.",
        )
    senders = facts.settings.get("max_wal_senders", "10")
    if int(senders) < 2:
        yield refused(
            "max_wal_senders",
            f"max_wal_senders is {senders} in the source, and a base copy needs 2",
            "There: ALTER SYSTEM SET max_wal_senders = 10, and restart it.",
        )
    if facts.origins > MOST_ORIGINS:
        yield refused(
            "replication origins",
            f"the source has {facts.origins} replication origins, and a standby can have {MOST_ORIGINS}",
            "There: drop subscriptions, and origins that nothing uses (pg_replication_origin_drop); or import it"
            " instead: ramet service import.",
        )


def _layout(facts: UpstreamFacts) -> Iterator[Finding]:
    segment_bytes = int(facts.settings.get("wal_segment_size", SEGMENT_BYTES))
    for subject, found, wanted in (
        ("WAL segment size", segment_bytes, SEGMENT_BYTES),
        ("block size", facts.block_bytes, BLOCK_BYTES),
    ):
        if found != wanted:
            yield refused(
                subject,
                f"the source has {found} bytes, and services have {wanted}",
                "Import it instead: ramet service import.",
            )
    if facts.tablespaces:
        yield refused(
            "tablespaces",
            f"the source has the tablespaces {shown_names(facts.tablespaces)}, which services do not have",
            "Move what is there to pg_default, and drop them; or import the database: ramet service import.",
        )


def _contents(facts: UpstreamFacts, host: HostFacts) -> Iterator[Finding]:
    if facts.reserved_roles:
        yield refused(
            "roles",
            f"the source has {shown_names(facts.reserved_roles)}: that name is reserved, or must not be a superuser's",
            "Rename them there.",
        )
    if host.missing_extensions and facts.major in host.majors:
        yield refused(
            "extensions",
            f"PostgreSQL {facts.major} here does not have {shown_names(host.missing_extensions)}",
            "Install them on the host of Ramet, or drop them in the source, also from shared_preload_libraries.",
        )
    if facts.databases and facts.databases[0] == _MAINTENANCE_DATABASE:
        yield refused(
            "databases",
            f"the database {_MAINTENANCE_DATABASE} cannot become {DATABASE} at the promotion: it is Ramet's own",
            "Follow the URL of another database. Where the data is in this one, move it to another one there by pg_dump"
            " and pg_restore, follow with the method LOGICAL, or import it: ramet service import.",
        )
    if DATABASE in facts.databases and facts.databases[0] != DATABASE:
        yield refused(
            "databases",
            f"the source has a database {DATABASE}, beside {facts.databases[0]} which gets that name at the promotion",
            f"Follow the URL of {DATABASE}, or rename that there.",
        )


def _entry(facts: UpstreamFacts) -> Iterator[Finding]:
    """Yield why the platform could not enter the copy, which it does as the first superuser of the source."""
    role = facts.bootstrap_role
    if facts.databases and _MAINTENANCE_DATABASE not in facts.databases:
        yield refused(
            "databases",
            f"the source has no database {_MAINTENANCE_DATABASE} that accepts connections, through which Ramet enters"
            " its copy",
            f"There: CREATE DATABASE {_MAINTENANCE_DATABASE}, or ALTER DATABASE {_MAINTENANCE_DATABASE}"
            " ALLOW_CONNECTIONS true.",
        )
    if "\n" in role or role.startswith("/"):
        yield refused(
            "roles",
            f"the first superuser of the source is {role!r}, which pg_hba.conf of its copy cannot name",
            "There, as another superuser: ALTER ROLE … RENAME TO a name without line feeds and without / as its first"
            " character.",
        )
    if not facts.can_enter:
        yield refused(
            "roles",
            f"the first superuser of the source, {role!r}, cannot log in, and Ramet enters its copy as that",
            "There: ALTER ROLE … LOGIN. Its pg_hba.conf can still refuse it.",
        )
    if not role.isascii() and facts.encoding not in _AS_SENT:
        yield refused(
            "roles",
            f"the first superuser of the source is {role!r}, and Ramet, which enters its copy as that, sends other"
            f" bytes than the encoding {facts.encoding} has for this name",
            "There, as another superuser: ALTER ROLE … RENAME TO a name of ASCII characters.",
        )


def _slot(facts: UpstreamFacts, slot: str | None, *, makes_slot: bool) -> Iterator[Finding]:
    if slot is None and not makes_slot:
        return
    limit = facts.settings.get("max_slot_wal_keep_size")
    if limit in (None, "-1", "0"):
        yield refused(
            "slot",
            f"max_slot_wal_keep_size is {limit or _UNKNOWN} in the source, and must limit what a slot keeps",
            "There: ALTER SYSTEM SET max_slot_wal_keep_size = '20GB', and reload it; or follow without a slot.",
        )
    if slot is not None and slot not in facts.slots:
        yield refused(
            "slot",
            f"the source has no physical replication slot {slot!r}",
            f"There: SELECT pg_create_physical_replication_slot('{slot}'), or let Ramet make one (--create-slot).",
        )
    if makes_slot and facts.free_slots < 1:
        yield refused(
            "slot",
            "all replication slots that the source allows exist already",
            "There: ALTER SYSTEM SET max_replication_slots to more, and restart it; or drop a slot that nothing uses.",
        )


def _archive(host: HostFacts) -> Iterator[Finding]:
    if host.archive_problem is not None:
        yield refused(
            "archive",
            host.archive_problem,
            "The operator of this host names a directory in RAMET_SOURCE_ARCHIVES; each subdirectory is an archive.",
        )


def _notes(facts: UpstreamFacts, host: HostFacts) -> Iterator[Finding]:
    if facts.collation_version != host.collation_version:
        yield Finding(
            Effect.CHANGED,
            "collation",
            f"the source sorts text by version {facts.collation_version or _UNKNOWN} of the C library,"
            f" and this host by {host.collation_version or _UNKNOWN}",
            _REFRESH,
        )
    if facts.icu_version is not None:
        yield Finding(
            Effect.NOTED,
            "collation",
            f"the source sorts text by version {facts.icu_version} of ICU; where this host has another one, PostgreSQL"
            " warns of it when a session begins",
            _REFRESH,
        )
    if _TIMESCALEDB in facts.extensions:
        yield Finding(Effect.NOTED, "service_type", "the source has TimescaleDB, so the service is a TIMESERIESDB")
    if len(facts.databases) > 1:
        yield Finding(Effect.NOTED, "databases", f"all of the source are copied: {shown_names(facts.databases)}")
    yield Finding(
        Effect.NOTED,
        "trust",
        "superusers of the source can run programs as the servers' user of this host: a standby replays all they do",
    )
