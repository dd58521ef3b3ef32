"""`ramet service`: rename, resize, set-environment, update-password, optimize."""

import sys
from pathlib import Path

import click

from ramet.cli.ui.options import (
    ENVIRONMENT,
    credentials_option,
    find_service,
    open_client,
    output_option,
    password_option,
    service_argument,
)
from ramet.cli.ui.output import say
from ramet.cli.ui.service_views import print_service
from ramet.cli.ui.waiting import Patience, waiting_options
from ramet.cli.user_files.passwords import forget_password, passwords_path, save_password
from ramet.model.credentials import Secret, new_password
from ramet.model.service import Environment


@click.command("rename")
@service_argument
@click.argument("name")
@output_option
@credentials_option
def rename(service: str, name: str, output: str, credentials_file: Path | None) -> None:
    """Give a service another name. Its endpoint and its forks do not notice.

    \b
    Example:
      ramet service rename shop-fork preview-42
    """
    with open_client(credentials_file) as client:
        print_service(client.rename_service(find_service(client, service).service_id, name), output)


@click.command("resize")
@service_argument
@click.option("--cpu", required=True, help="Thousandths of a core, or 'shared'.")
@click.option("--memory", required=True, help="Gigabytes, or 'shared'.")
@waiting_options
@output_option
@credentials_option
def resize(
    service: str,
    cpu: str,
    memory: str,
    patience: Patience,
    output: str,
    credentials_file: Path | None,
) -> None:
    """Give a service another size: without a break where PostgreSQL can do that, else with a short restart.

    A paused service is resumed at its new size.

    \b
    Examples:
      ramet service resize shop --cpu 2000 --memory 8
      ramet service resize preview-42 --cpu shared --memory shared
    """
    with open_client(credentials_file) as client:
        found = find_service(client, service)
        changed = client.resize_service(found.service_id, cpu, memory)
        resized = patience.follow(
            client.wait_ready, found.service_id, f"Resizing {found.name}", f"{found.name} has its new size"
        )
    print_service(resized or changed, output)


@click.command("set-environment")
@service_argument
@click.argument("environment", type=ENVIRONMENT)
@credentials_option
def set_environment(service: str, environment: str, credentials_file: Path | None) -> None:
    """Say how much is at stake in a service: DEV or PROD.

    \b
    Example:
      ramet service set-environment shop PROD
    """
    with open_client(credentials_file) as client:
        found = find_service(client, service)
        client.set_environment(found.service_id, Environment(environment.upper()))
    say(f"{found.name} is a {environment.upper()} service now.", "green")


@click.command("update-password")
@service_argument
@click.option("--generate", is_flag=True, help="Make a random one.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read it from standard input, one line.")
@password_option
@credentials_option
def update_password(
    service: str, generate: bool, from_stdin: bool, no_save_password: bool, credentials_file: Path | None
) -> None:
    """Change the password of a service's admin, tsdbadmin. Without an option it is asked for.

    \b
    Examples:
      ramet service update-password shop --generate
      pass show shop | ramet service update-password shop --stdin
    """
    with open_client(credentials_file) as client:
        found = find_service(client, service)
        password = _password(generate, from_stdin)
        client.update_password(found.service_id, password)
    if not no_save_password:
        save_password(found.endpoint, password.reveal())
        say(f"The password of {found.name} is changed, and kept in {passwords_path()}.", "green")
        return
    forget_password(found.endpoint)
    say(f"The password of {found.name} is changed.", "green")
    if generate:
        click.echo(password.reveal())


@click.command("optimize")
@service_argument
@waiting_options
@output_option
@credentials_option
def optimize(service: str, patience: Patience, output: str, credentials_file: Path | None) -> None:
    """Collect fresh statistics for a service's planner. It serves meanwhile.

    \b
    Example:
      ramet service optimize shop
    """
    with open_client(credentials_file) as client:
        changed = client.optimize_service(find_service(client, service).service_id)
        name = changed.name
        ready = patience.follow(
            client.wait_ready, changed.service_id, f"Optimizing {name}", f"{name} has fresh statistics"
        )
    print_service(ready or changed, output)


def _password(generate: bool, from_stdin: bool) -> Secret:
    if generate and from_stdin:
        raise click.UsageError("Give --generate or --stdin, not both.")
    if generate:
        return new_password()
    if from_stdin:
        return Secret(sys.stdin.readline().rstrip("\r\n"))
    typed: str = click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    return Secret(typed)
