"""Forks where the storage takes no snapshots: copies of all data over the network."""

from typing import Protocol

from ramet.backends.interface.values import Server, Source


class Copies(Protocol):
    """What a fork of now begins with where nothing of its parent's storage can be shared."""

    def are_needed(self) -> bool:
        """Tell whether the storage takes no snapshots; then only the off-host archive has the past."""

    def size_bytes(self, source: Source) -> int | None:
        """Return about how many bytes a fork copies over the network; None where it shares storage, or has a base."""

    def make(self, child: Server, source: Source) -> str | None:
        """Copy what `restore.capture` cannot take at once; a text that changes as that advances, None when it is done.

        The parent is needed until then. Raises Failed when it cannot be copied.
        """
