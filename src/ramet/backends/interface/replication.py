"""What servers elsewhere read of a server: who may, the slots that retain WAL for it, and the copy that it moves to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ramet.backends.interface.values import Server
from ramet.model.passwords import Secret


@dataclass(frozen=True)
class ReplicationSlot:
    """A replication slot. `wal_status` is PostgreSQL's: a slot that is `lost` has to be made again.

    `plugin` and `database` are None for a physical slot. Of a server that is stopped only the names are known.
    """

    name: str
    plugin: str | None = None
    database: str | None = None
    active: bool = False
    wal_status: str | None = None
    retained_bytes: int | None = None


@dataclass(frozen=True)
class ReplicationSlots:
    """The slots of a server, by name, and how much WAL each of them may retain before it is lost."""

    limit_bytes: int | None
    slots: Sequence[ReplicationSlot]


@dataclass(frozen=True)
class Trust:
    """What verifies the certificate of an endpoint, as PEM. Unless it `names_host`, its authority alone is verified."""

    authority: str
    names_host: bool


class Replication(Protocol):
    """What servers elsewhere read of a server here."""

    def slots(self, server: Server, *, reads_volume: bool = True) -> ReplicationSlots:
        """Return the replication slots of a server, which may be stopped.

        Without `reads_volume` those of a stopped one are left out where its files are not on this host. Raises
        Unavailable when it cannot be asked.
        """

    def commit_mark(self, server: Server) -> str | None:
        """Return a text that is the same later only if no transaction that wrote anything has ended in between.

        A server that lost what was not flushed, in whatever crash, has another one for ever.
        None when that cannot be known: while the server does not serve, in a standby, while a transaction is prepared,
        and while an older transaction than one that has ended is under way.
        """

    def permit(self, server: Server) -> None:
        """Let the admin of a serving server replicate logically if its wal_level is logical; otherwise no role may."""

    def admit_copy(self, server: Server, verifier: Secret) -> str:
        """Let one role stream from a serving server, with the password of `verifier`; return its name.

        It may until `refuse_copy`, also after a restart. Raises Unavailable when the server does not serve.
        """

    def hasten_copy(self, server: Server) -> None:
        """Complete a checkpoint that a copy waits for before it begins. Raises Unavailable when it does not serve."""

    def refuse_copy(self, server: Server) -> None:
        """Let that role stream no more, and remove it: at once, or when a server that is stopped starts again."""

    def trust(self, server: Server) -> Trust | None:
        """Return what verifies the endpoint of a server that has an authority of its own; None: the installation's.

        Raises Unavailable.
        """

    def end_lsn(self, server: Server) -> str | None:
        """Return where the WAL of a stopped server ends: the LSN of its last checkpoint.

        None: it was not shut down in order, so that nobody can tell whether a copy has all of it.
        """

    def unlogged_tables(self, server: Server) -> list[str]:
        """Return the unlogged tables of a serving server, whose rows a copy that streams does not have."""
