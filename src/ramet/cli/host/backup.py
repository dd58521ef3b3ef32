"""`ramet backup`: a consistent copy of the store and its secrets, without downtime."""

from pathlib import Path

import click

from ramet.cli.host.data_dir import existing_data_dir
from ramet.cli.ui.options import data_option
from ramet.cli.ui.output import say
from ramet.cli.user_files.files import write_private
from ramet.configured import back_up_store
from ramet.errors import Invalid

_SECRETS = "secrets"


@click.command("backup")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@data_option
def backup(directory: Path, data_dir: Path | None) -> None:
    """Copy the store and its secrets to a new DIRECTORY. The copy is consistent, and nothing has to be stopped.

    The databases are not part of it: they have their own snapshots and WAL archives. A store on a PostgreSQL server of
    your own must be backed up there with pg_dump; only the secrets are copied then. docs/backup.md says how to restore.

    \b
    Example:
      ramet backup /mnt/backups/ramet-2026-01-15
    """
    settings = existing_data_dir(data_dir)
    if directory.exists() and any(directory.iterdir()):
        raise Invalid("DIRECTORY_NOT_EMPTY", f"{directory} is not empty", "Name a new directory.")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    for secret in sorted((settings.data_dir / _SECRETS).glob("*")):
        if secret.is_file():
            write_private(directory / _SECRETS / secret.name, secret.read_bytes())
    if back_up_store(settings, directory / "ramet.db"):
        say(f"The store and its secrets are in {directory}. Protect them from other users.")
    else:
        say(f"The secrets are in {directory}. The store is a PostgreSQL database: back it up with pg_dump.")
