"""`ramet archive key`: the key that opens the secrets in the off-host archive."""

from pathlib import Path

import click

from ramet.cli.host.data_dir import existing_data_dir
from ramet.cli.ui.options import data_option
from ramet.cli.ui.output import say
from ramet.configured import printed_recovery_key


@click.group("archive")
def archive_group() -> None:
    """Prepare for the loss of this host."""


@archive_group.command("key")
@data_option
def show_key(data_dir: Path | None) -> None:
    """Print the recovery key. Keep it away from this host and from the object store.

    The catalogue in the off-host archive has the certificate authority and the root key of this installation, encrypted
    with this key. 'ramet recover' needs it to bring them back. Databases come back without it. A key is made where
    there is none yet. One that the catalogue is not encrypted with is refused.

    \b
    Example:
      ramet archive key > /media/safe/ramet-archive.key
    """
    key, path = printed_recovery_key(existing_data_dir(data_dir))
    click.echo(key.secret.reveal())
    say(f"Keep this key, of {path}, where the loss of this host does not reach it, and not in the object store.")
