"""Secrets that only one answer of the server has: what cannot be saved in a file is shown."""

from collections.abc import Iterator
from contextlib import contextmanager

from ramet.cli.ui.output import say
from ramet.errors import Error


@contextmanager
def shown_if_unsaved(of: str, secret: str) -> Iterator[None]:
    """Show a secret when the block fails to save it; `of` says which one it is, as 'The password of shop'."""
    try:
        yield
    except Error:
        show_unsaved(of, secret)
        raise


def show_unsaved(of: str, secret: str) -> None:
    """Show a secret that is not saved."""
    say(f"{of} is not saved in a file: {secret}")
