"""`ramet backup`: a consistent copy of the store and of the secrets beside it, while everything goes on."""

from pathlib import Path

import click

from ramet.app import back_up_store, has_store
from ramet.cli.ui.options import data_option
from ramet.cli.ui.output import say
from ramet.cli.user_files.private_file import write_private
from ramet.errors import Invalid, NotFound
from ramet.settings import load_settings

_SECRETS = "secrets"


@click.command("backup")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@data_option
def backup(directory: Path, data_dir: Path | None) -> None:
    """Copy the store and its secrets into a new DIRECTORY, as of one moment. Nothing has to be stopped.

    Databases are not in it: they have their snapshots and archives. A store on a PostgreSQL server of your own is
    backed up there, with pg_dump; then only the secrets are copied. How to restore: docs/backup.md.

    \b
    Example:
      ramet backup /mnt/backups/ramet-2026-01-15
    """
    settings = load_settings(data_dir=data_dir)
    if not has_store(settings):
        raise NotFound("NO_DATA_DIR", f"{settings.data_dir} is no data directory of Ramet", "Name one with --data.")
    if directory.exists() and any(directory.iterdir()):
        raise Invalid("DIRECTORY_NOT_EMPTY", f"{directory} is not empty", "Name a new directory.")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    for secret in sorted((settings.data_dir / _SECRETS).glob("*")):
        if secret.is_file():
            write_private(directory / _SECRETS / secret.name, secret.read_bytes())
    if back_up_store(settings, directory / "ramet.db"):
        say(f"The store and its secrets are in {directory}. Keep them where nobody else can read them.")
    else:
        say(f"The secrets are in {directory}. The store is a PostgreSQL database: back it up with pg_dump.")
