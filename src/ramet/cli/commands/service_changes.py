"""`ramet service`: rename, resize, set-ha, set-environment, update-password, optimize."""

import sys

import click

from ramet.api.schemas.services import Service
from ramet.cli.ui.asking import answered
from ramet.cli.ui.options import ENVIRONMENT, output_option, password_option, service_command
from ramet.cli.ui.output import say
from ramet.cli.ui.secrets import show_unsaved
from ramet.cli.ui.service_views import print_service
from ramet.cli.ui.waiting import Waiting, outcome_options
from ramet.cli.user_files.passwords import forget_password, passwords_path, save_password
from ramet.client import Client
from ramet.client.errors import ApiError, is_lost
from ramet.errors import Error, Failed
from ramet.model.environment import Environment
from ramet.model.high_availability import MOST_STANDBYS
from ramet.model.passwords import new_password
from ramet.model.secret import Secret

_UNCHANGED = ("ROLE_LOCKED", "FALLING_ASLEEP")  # each other fault of the server may come after the change


@service_command("rename")
@click.argument("name")
@output_option
def rename(client: Client, service: Service, name: str, output: str) -> None:
    """Rename a service. Its endpoint and its forks are not affected.

    \b
    Example:
      ramet service rename shop-fork preview-42
    """
    print_service(client.rename_service(service.service_id, name), output)


@service_command("resize")
@click.option("--cpu", required=True, help="Thousandths of a core, or 'shared'.")
@click.option("--memory", required=True, help="Gigabytes, or 'shared'.")
@outcome_options
def resize(client: Client, service: Service, cpu: str, memory: str, waiting: Waiting, output: str) -> None:
    """Change the CPU and memory of a service. The server restarts only if PostgreSQL needs that for the new size.

    A paused service is resumed with its new size.

    \b
    Examples:
      ramet service resize shop --cpu 2000 --memory 8
      ramet service resize preview-42 --cpu shared --memory shared
    """
    changed, name = client.resize_service(service.service_id, cpu, memory), service.name
    resized = waiting.follow(client.wait_ready, service.service_id, f"Resizing {name}", f"{name} is resized")
    print_service(resized or changed, output)


@service_command("set-ha")
@click.argument("replicas", type=click.IntRange(0, MOST_STANDBYS))
@click.option(
    "--sync",
    "synchronous",
    type=click.IntRange(0, MOST_STANDBYS),
    default=0,
    help="How many of them must have written a commit before the client gets its answer.  [default: 0]",
)
@outcome_options
def set_ha(client: Client, service: Service, replicas: int, synchronous: int, waiting: Waiting, output: str) -> None:
    """Set how many replicas of a service take over when its primary fails. It serves all the time.

    This needs a backend with several hosts, such as Kubernetes. With --sync 1 no commit that was confirmed is lost.

    \b
    Examples:
      ramet service set-ha shop 1 --sync 1
      ramet service set-ha shop 0
    """
    changed, name = client.set_ha(service.service_id, replicas, synchronous), service.name
    doing, done = f"Setting the replicas of {name}", f"{name} has {replicas} high-availability replicas"
    print_service(waiting.follow(client.wait_ready, service.service_id, doing, done) or changed, output)


@service_command("set-environment")
@click.argument("environment", type=ENVIRONMENT)
def set_environment(client: Client, service: Service, environment: Environment) -> None:
    """Set the environment of a service. It is PROD (a restore or a move needs its name) or DEV (neutralized when
    forked). Neither is kept from being deleted: 'ramet service protect' does that.

    \b
    Example:
      ramet service set-environment shop PROD
    """
    client.set_environment(service.service_id, environment)
    say(f"{service.name} is now a {environment} service.", "green")


@service_command("update-password")
@click.option("--generate", is_flag=True, help="Generate a random password.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the password from standard input, one line.")
@password_option
def update_password(client: Client, service: Service, generate: bool, from_stdin: bool, no_save_password: bool) -> None:
    """Change the password of tsdbadmin. Without an option, the command prompts for it.

    \b
    Examples:
      ramet service update-password shop --generate
      pass show shop | ramet service update-password shop --stdin
    """
    password = _password(generate, from_stdin)
    try:
        client.update_password(service.service_id, password)
    except (Error, KeyboardInterrupt) as error:
        if generate and _may_be_changed(error):
            show_unsaved(f"The password that {service.name} may have now", password.reveal())
        raise
    saved = "" if no_save_password else f", and saved in {passwords_path()}"
    try:
        if no_save_password:
            forget_password(service.endpoint)
        else:
            save_password(service.endpoint, password.reveal())
    except Failed:
        _say_changed(service, "", password if generate else None)
        raise
    _say_changed(service, saved, password if generate and no_save_password else None)


@service_command("optimize")
@outcome_options
def optimize(client: Client, service: Service, waiting: Waiting, output: str) -> None:
    """Run ANALYZE in all databases of a service. It accepts connections all the time.

    \b
    Example:
      ramet service optimize shop
    """
    changed, name = client.optimize_service(service.service_id), service.name
    ready = waiting.follow(client.wait_ready, service.service_id, f"Optimizing {name}", f"{name} is analyzed")
    print_service(ready or changed, output)


def _may_be_changed(error: Error | KeyboardInterrupt) -> bool:
    """Tell whether the service may have its new password although the answer is not that."""
    if isinstance(error, ApiError):
        return error.status >= 500 and error.code not in _UNCHANGED
    return isinstance(error, KeyboardInterrupt) or is_lost(error)


def _say_changed(service: Service, saved: str, shown: Secret | None) -> None:
    say(f"The password of {service.name} is changed{saved}.", "green")
    if shown is not None:
        click.echo(shown.reveal())


def _password(generate: bool, from_stdin: bool) -> Secret:
    if generate and from_stdin:
        raise click.UsageError("--generate and --stdin cannot be used together.")
    if generate:
        return new_password()
    if from_stdin:
        return Secret(sys.stdin.readline().rstrip("\r\n"))
    with answered("use --generate or --stdin."):
        typed: str = click.prompt("New password", hide_input=True, confirmation_prompt=True, err=True)
    return Secret(typed)
