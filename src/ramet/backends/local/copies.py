"""Copies over the network, which this backend never needs: it forks within the storage of this host."""

from ramet.backends.interface.values import Server, Source


class LocalCopies:
    """No copies; obeys ramet.backends.interface.copies.Copies."""

    def are_needed(self) -> bool:
        return False

    def size_bytes(self, source: Source) -> int | None:
        return None

    def make(self, child: Server, source: Source) -> str | None:
        return None
