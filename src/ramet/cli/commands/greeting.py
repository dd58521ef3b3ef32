"""`ramet` without a command: what Ramet is, what there is, and what to do next."""

from collections.abc import Sequence

import click

from ramet import __version__
from ramet.api.schemas.services import Service
from ramet.cli.ui.options import open_client
from ramet.errors import Error, Unauthorized
from ramet.model.status import Status
from ramet.model.words import counted

_SECONDS = 3.0
_FIRST_STEPS = (
    ("ramet up", "run Ramet on this host, in a terminal of its own"),
    ("ramet service create shop", "a PostgreSQL service"),
    ("ramet fork shop", "a second one with its data"),
)


def greet() -> None:
    """Print it. A server that cannot be asked is no error here: the user learns how to get one."""
    click.echo(f"Ramet {__version__} runs PostgreSQL services on your own hosts, and forks them.\n")
    try:
        with open_client(None, _SECONDS) as client:
            situation, steps = _after(client.base_url, client.list_services())
    except Unauthorized as error:
        if error.code != "NO_CREDENTIALS":
            raise
        situation, steps = "No server is known here yet. To begin:", _FIRST_STEPS
    except Error as error:
        situation, steps = f"{error.message}. To begin again:", _FIRST_STEPS[:1]
    width = max(len(command) for command, _ in steps)
    click.echo(situation)
    for command, meaning in steps:
        click.echo(f"  {command:<{width}}   # {meaning}")
    click.echo("\n'ramet --help' lists all commands, 'ramet COMMAND --help' explains one.")


def _after(base_url: str, services: Sequence[Service]) -> tuple[str, Sequence[tuple[str, str]]]:
    """Return what there is, and what to do next with it."""
    host = base_url.partition("://")[2].partition("/")[0]
    services = [one for one in services if one.status not in (Status.DELETING, Status.DELETED)]
    if not services:
        return f"The server at {host} has no services of yours yet. Next:", _FIRST_STEPS[1:]
    ready = [one for one in services if one.status is Status.READY]
    name = (ready or services)[-1].name
    one = name if name.isalnum() else f"'{name}'" if " " in name else name
    return f"The server at {host} has {counted(len(services), 'service')}, {len(ready)} READY. For example:", (
        ("ramet ls", "list them"),
        (f"ramet psql {one}", "connect"),
        (f"ramet fork {one}", "a second one with its data, as of now"),
        (f"ramet open {one}", "see it in the console"),
    )
