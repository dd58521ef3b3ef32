"""`ramet console`: a link to the console of a running server."""

from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec

from ramet.api.application import BASE_PATH
from ramet.cli.ui.options import credentials_option
from ramet.cli.user_files.credentials import Credentials, find_credentials
from ramet.client import ApiError
from ramet.client.transport import HttpTransport
from ramet.errors import Unavailable

_SECONDS = 30.0


@click.command("console")
@credentials_option
def console(credentials_file: Path | None) -> None:
    """Print a link that signs in to the console. It works once, within an hour, with the key that commands use.

    \b
    Example:
      ramet console
    """
    found = find_credentials(credentials_file)
    origin = found.base_url.rstrip("/").removesuffix(BASE_PATH)
    click.echo(origin + _ask(origin, found))


def _ask(origin: str, found: Credentials) -> str:
    """Return the path of a new link. Raises Unavailable, ApiError."""
    form = urlencode({"public_key": found.public_key, "secret_key": found.secret_key})
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    transport = HttpTransport(origin, _SECONDS, found.ca)
    try:
        answer = transport.request("POST", "/console/link", form.encode(), headers)
    except (OSError, HTTPException) as error:
        raise Unavailable(
            "SERVER_UNREACHABLE", f"No Ramet answers at {origin}", f"Start one with 'ramet up'. ({error})"
        ) from error
    finally:
        transport.close()
    try:
        body = msgspec.json.decode(answer.content, type=dict[str, str])
        if answer.status < 300:
            return body["path"]
        raise ApiError(answer.status, body["code"], body["message"])
    except (msgspec.DecodeError, KeyError) as error:
        raise ApiError(answer.status, "UNKNOWN_ANSWER", f"The answer from {origin} is not from a console") from error
