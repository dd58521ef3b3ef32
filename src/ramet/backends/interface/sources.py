"""Databases outside of Ramet whose contents become a service."""

from dataclasses import dataclass
from typing import Protocol

from ramet.backends.interface.values import Progress, Server
from ramet.endpoints import address
from ramet.model.passwords import Secret
from ramet.model.service_type import ServiceType
from ramet.model.upstream import Upstream


@dataclass(frozen=True)
class SourceAddress:
    """Where a database is. `sslmode` is one of libpq's; `root_certificate` is PEM, for verify-ca and verify-full."""

    host: str
    port: int
    database: str
    user: str
    sslmode: str = "require"
    root_certificate: str | None = None

    @classmethod
    def of(cls, upstream: Upstream) -> "SourceAddress":
        """Return where the source of a service is."""
        own = (upstream.host, upstream.port, upstream.database, upstream.user, upstream.sslmode)
        return cls(*own, upstream.root_certificate)

    def __str__(self) -> str:
        return f"{self.user}@{address(self.host, self.port)}/{self.database}"


@dataclass(frozen=True)
class MembershipOptions:
    """How a role is a member of another one; None where the source is older than PostgreSQL 16, which has these."""

    role: str
    is_admin: bool = False
    inherits: bool | None = None
    may_set: bool | None = None


@dataclass(frozen=True)
class SourceRole:
    """A role that a database depends on. `settings` are of the form name=value; `member_of` are names of roles."""

    name: str
    is_superuser: bool = False
    creates_roles: bool = False
    creates_databases: bool = False
    inherits: bool = True
    replicates: bool = False
    bypasses_row_security: bool = False
    connection_limit: int = -1
    settings: tuple[str, ...] = ()
    member_of: tuple[str, ...] = ()
    membership_options: tuple[MembershipOptions, ...] = ()


@dataclass(frozen=True)
class SourceExtension:
    """An extension of a database, and the schema of its objects."""

    name: str
    version: str
    schema: str


@dataclass(frozen=True)
class SourcePublication:
    """A publication. `relation_oids` are those of its rows in pg_publication_rel."""

    oid: int
    name: str
    needs_superuser: bool
    relation_oids: tuple[int, ...] = ()


LOCALE_PROVIDERS = ("libc", "icu", "builtin")


@dataclass(frozen=True)
class Locale:
    """How a database sorts and classifies text. `provider` is libc, icu or builtin, and `name` is for the last two."""

    encoding: str
    provider: str
    collate: str
    ctype: str
    name: str | None = None
    rules: str | None = None


@dataclass(frozen=True)
class SourceFacts:
    """What was read in a database, as the role that the import logs in with.

    `bootstrap_role` is the superuser that initdb made; its objects are not recorded as dependencies.
    `for_superusers` are the objects that only a superuser can create, as (kind, name). `unreadable` and `row_secured`
    are what that role cannot read, or not all rows of. `policy_roles` are those that row security policies name.
    `withheld_in_policies` and `withheld_owners` are roles of PostgreSQL that services withhold from tenants.
    `settings` are those of the database, `role_settings` those of roles in it, as (role, setting).
    """

    version: str
    major: int
    locale: Locale
    size_bytes: int
    table_count: int
    large_object_count: int
    bootstrap_role: str
    bootstrap_owns: int
    roles: tuple[SourceRole, ...] = ()
    policy_roles: tuple[str, ...] = ()
    withheld_in_policies: tuple[str, ...] = ()
    withheld_owners: tuple[str, ...] = ()
    extensions: tuple[SourceExtension, ...] = ()
    publications: tuple[SourcePublication, ...] = ()
    subscriptions: tuple[str, ...] = ()
    event_triggers: tuple[str, ...] = ()
    tablespaces: tuple[str, ...] = ()
    for_superusers: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[str, ...] = ()
    row_secured: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    role_settings: tuple[tuple[str, str], ...] = ()
    database_privileges: tuple[str, ...] = ()
    other_databases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Destination:
    """What a service for such a database could be here.

    `pg_major` is None when every version here, or the one that was asked for, is older than the source, or lacks its
    tools. `missing_extensions` are not installed, and `refused_extensions` can only be made by superusers.
    `locale_problem` says why the locale is not available here.
    """

    pg_major: int | None
    newest_major: int
    free_bytes: int
    missing_extensions: tuple[str, ...] = ()
    refused_extensions: tuple[str, ...] = ()
    locale_problem: str | None = None


class Sources(Protocol):
    """How the contents of a database elsewhere get into a server here."""

    def examine(
        self, source: SourceAddress, password: Secret, service_type: ServiceType, pg_major: int | None = None
    ) -> tuple[SourceFacts, Destination]:
        """Read what an import depends on; nothing is changed. Raises Invalid when the source cannot be read.

        The service is to have the version `pg_major`; None: one that suits the source.
        """

    def seal(self, password: Secret) -> str:
        """Return a password in a form that only this backend can read, for the store."""

    def keep(self, server: Server, source: SourceAddress, sealed: str) -> None:
        """Keep the password in the server's volume, readable by Ramet alone, until `discard`."""

    def fetch(
        self,
        server: Server,
        source: SourceAddress,
        facts: SourceFacts,
        timeout_seconds: float,
        *,
        schema_only: bool = False,
    ) -> Progress:
        """Copy the source into the server's volume, as of one moment; watch for at most `timeout_seconds`.

        With `schema_only` it has neither rows nor publications, for a server that will subscribe.

        After a crash it begins again. Raises Failed with the reason of PostgreSQL's tools.
        """

    def load(self, server: Server, facts: SourceFacts, *, owners: bool, timeout_seconds: float) -> Progress:
        """Put what was fetched into the database of a running server that is closed to clients.

        What an earlier attempt left there is replaced. Without `owners` all belongs to the admin, and no role and no
        privilege is taken over. Raises Unavailable when the server was killed, Failed when the data cannot be loaded.
        """

    def discard(self, service_id: str) -> None:
        """End the work on an import, and remove the password and what was fetched; what was loaded stays."""
