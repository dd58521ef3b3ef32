"""`ramet console` and `ramet open`: a link to the console of a running server, printed or opened."""

import os
import sys
import webbrowser
from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec

from ramet.cli.ui.options import complete_service, credentials_option, find_service, open_client
from ramet.cli.user_files.credentials import Credentials, find_credentials
from ramet.client import ApiError
from ramet.client.transport import HttpTransport
from ramet.endpoints import BASE_PATH
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
    click.echo(_link(find_credentials(credentials_file)))


@click.command("open")
@click.argument("service", required=False, shell_complete=complete_service)
@credentials_option
def open_console(service: str | None, credentials_file: Path | None) -> None:
    """Open the console in the browser, signed in; with SERVICE the page of that service.

    Where there is no browser, this prints the link.

    \b
    Examples:
      ramet open
      ramet open shop
    """
    link = _link(find_credentials(credentials_file))
    if service is not None:
        with open_client(credentials_file) as client:
            link += f"?next=/console/services/{find_service(client, service).service_id}"
    if not _open_in_browser(link):
        click.echo(link)


def _open_in_browser(link: str) -> bool:
    """Open a link on the user's desktop; return False where there is none. A browser in the terminal is not meant."""
    has_desktop = sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return has_desktop and webbrowser.open(link)


def _link(found: Credentials) -> str:
    origin = found.base_url.rstrip("/").removesuffix(BASE_PATH)
    return origin + _ask(origin, found)


def _ask(origin: str, found: Credentials) -> str:
    """Return the path of a new link. Raises Unavailable, ApiError."""
    form = urlencode({"public_key": found.public_key, "secret_key": found.secret_key})
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    transport = HttpTransport(origin, _SECONDS, found.ca)
    try:
        answer = transport.request("POST", "/console/link", form.encode(), headers)
    except OSError as error:
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
