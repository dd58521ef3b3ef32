"""`ramet ca`: the authority that clients verify endpoints and HTTP with."""

from pathlib import Path

import click

from ramet.cli.ui.options import credentials_option, open_client
from ramet.cli.ui.output import say


@click.command("ca")
@credentials_option
@click.option(
    "--data",
    "data_dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Read it from this data directory on this host, and ask no server.",
)
def show_authority(credentials_file: Path | None, data_dir: Path | None) -> None:
    """Print the certificate of the authority. Clients verify the endpoints of services with it, and Ramet's own HTTP.

    Over a connection that nobody has verified, compare the fingerprint with the one that the host shows.

    \b
    Examples:
      ramet ca > ramet-ca.crt
      psql "host=db.example.com port=15432 user=tsdbadmin dbname=tsdb sslmode=verify-full sslrootcert=ramet-ca.crt"
      ramet ca --data /srv/ramet > ramet-ca.crt
      ramet config set ca ramet-ca.crt
    """
    if data_dir is not None:
        certificate, fingerprint = _of_host(data_dir)
    else:
        with open_client(credentials_file) as client:
            found = client.get_certificate_authority()
        certificate, fingerprint = found.certificate, found.sha256_fingerprint
    click.echo(certificate, nl=False)
    say(f"SHA-256 fingerprint {fingerprint}")


def _of_host(data_dir: Path) -> tuple[str, str]:
    from ramet.cli.host.data_dir import existing_data_dir
    from ramet.configured import authority_of

    found = authority_of(existing_data_dir(data_dir))
    return found.pem, found.sha256_fingerprint
