"""`ramet mcp`: the tools for agents."""

import importlib.util
from pathlib import Path

import click

from ramet.cli.ui.options import credentials_option, open_client
from ramet.cli.ui.output import say
from ramet.cli.user_files.credentials import find_credentials
from ramet.errors import Failed

_HOST = "127.0.0.1"


@click.command("mcp")
@click.option(
    "--http",
    "port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve streamable HTTP on this port of 127.0.0.1, instead of standard input and output.",
)
@credentials_option
def mcp(port: int | None, credentials_file: Path | None) -> None:
    """Serve tools for agents by the Model Context Protocol: fork, query, schema, checkpoint, rewind and more.

    An agent starts this command itself, and all its tools use the key of the command: one of the role FORKER is enough.
    With --http each request carries a key of its own, as 'Authorization: Bearer PUBLIC_KEY:SECRET_KEY'.

    \b
    Examples:
      ramet mcp
      ramet mcp --http 8765
    """
    if importlib.util.find_spec("mcp") is None:
        raise Failed("MCP_NOT_INSTALLED", "The Python package mcp is not installed", "pip install 'ramet[mcp]'")
    if port is None:
        _serve_stdio(credentials_file)
    else:
        _serve_http(port, credentials_file)


def _serve_stdio(credentials_file: Path | None) -> None:
    from ramet.kits.mcp.callers import one_caller
    from ramet.kits.mcp.server import build_server

    with open_client(credentials_file) as client:
        build_server(one_caller(client)).run("stdio")


def _serve_http(port: int, credentials_file: Path | None) -> None:
    import uvicorn

    from ramet.kits.mcp.callers import CallersByKey
    from ramet.kits.mcp.server import PATH, http_application

    found = find_credentials(credentials_file)
    say(f"Agents find the tools at http://{_HOST}:{port}{PATH}, with a key in each request. Ctrl-C ends them.")
    uvicorn.run(http_application(CallersByKey(found.base_url, found.ca)), host=_HOST, port=port, log_level="warning")
