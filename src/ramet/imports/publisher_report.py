"""What following a source by a subscription would do: a pure function from what was found there."""

from collections.abc import Iterator

from ramet.backends.interface.subscriptions import PublisherFacts
from ramet.imports.findings import Effect, Finding, refused
from ramet.imports.report import shown_names

OLDEST_MAJOR = 16


def judge_publisher(facts: PublisherFacts, pg_major: int) -> list[Finding]:
    """Return the findings for a service of a version, those that refuse it first."""
    return [*_version(facts, pg_major), *_rights(facts), *_limits(facts), *_tables(facts), *_not_replicated(facts)]


def _version(facts: PublisherFacts, pg_major: int) -> Iterator[Finding]:
    if pg_major < OLDEST_MAJOR:
        message = f"the service would have PostgreSQL {pg_major}, and a subscription needs {OLDEST_MAJOR} or later"
        yield refused("version", message, f"Install PostgreSQL {OLDEST_MAJOR} or later on this host.")
    if facts.is_standby:
        yield refused("source", "it is a standby, where nothing can be published", "Name its primary.")


def _rights(facts: PublisherFacts) -> Iterator[Finding]:
    if not facts.may_replicate:
        remedy = "ALTER ROLE … REPLICATION, or what the provider has for it, such as rds_replication."
        yield refused("rights", "the role may not replicate", remedy)
    if not facts.may_publish:
        remedy = "GRANT CREATE ON DATABASE … to it."
        yield refused("rights", "the role may not create publications", remedy)
    if facts.not_owned:
        message = f"the role does not own {shown_names(facts.not_owned)}, so it cannot publish them"
        yield refused("rights", message, "Make it a member of their owner.")


def _limits(facts: PublisherFacts) -> Iterator[Finding]:
    if facts.wal_level != "logical":
        message = f"wal_level is {facts.wal_level}, and logical replication needs logical"
        yield refused("wal_level", message, "Set wal_level = logical there, and restart it.")
    for count, setting in ((facts.free_slots, "max_replication_slots"), (facts.free_senders, "max_wal_senders")):
        if count < 1:
            remedy = f"Raise {setting} there, or drop a slot that is not used."
            yield refused(setting, "none is free in the source", remedy)


def _tables(facts: PublisherFacts) -> Iterator[Finding]:
    if facts.without_identity:
        message = (
            f"{shown_names(facts.without_identity)} have no replica identity: while they are published, UPDATE and"
            " DELETE of their rows fail in the source"
        )
        remedy = "Give them a primary key that is not DEFERRABLE, or ALTER TABLE … REPLICA IDENTITY FULL."
        yield refused("tables without a primary key", message, remedy)


def _not_replicated(facts: PublisherFacts) -> Iterator[Finding]:
    if facts.unlogged:
        yield Finding(
            Effect.CHANGED, "unlogged tables", f"the rows of {shown_names(facts.unlogged)} are not replicated"
        )
    if facts.materialized_views:
        message = f"{shown_names(facts.materialized_views)} have no rows, and cannot be read before they are refreshed"
        yield Finding(
            Effect.CHANGED, "materialized views", message, "REFRESH MATERIALIZED VIEW each after the promotion."
        )
    if facts.large_object_count:
        message = f"{facts.large_object_count} large objects are not replicated"
        yield Finding(Effect.CHANGED, "large objects", message, "Import the database instead if you need them.")
    if facts.sequence_count:
        yield Finding(Effect.NOTED, "sequences", f"{facts.sequence_count} get their values when it is promoted")
    yield Finding(Effect.NOTED, "schema", "changes of tables are not replicated: make none until it is promoted")
