"""Questions to the user where nobody may be there to answer."""

import getpass
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def answered(remedy: str) -> Iterator[None]:
    """Let a question of the block that nobody answers be a UsageError with a remedy."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)  # a password is not read where it could be seen
        try:
            yield
        except (click.Abort, getpass.GetPassWarning) as error:
            if isinstance(error.__context__, KeyboardInterrupt):
                raise
            click.echo(err=True)
            raise click.UsageError(f"Nobody has answered: {remedy}") from None
