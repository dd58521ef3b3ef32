"""`ramet service create` and `fork`: asking for a new service, keeping its password, and waiting until it is READY."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from ramet.api.schemas.services import Service
from ramet.cli.commands.restore import print_plan
from ramet.cli.commands.restore_points import ChosenPoint, restore_point_options
from ramet.cli.connection import connection_string
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
from ramet.cli.user_files.passwords import passwords_path, save_password
from ramet.client import Client
from ramet.errors import Error
from ramet.model.service import Environment, ServiceType

_TYPE = click.Choice([one.value for one in ServiceType], case_sensitive=False)


@dataclass(frozen=True)
class Birth:
    """What is asked of every new service, and how its command goes on then."""

    cpu: str | None
    memory: str | None
    environment: str
    idempotency_key: str | None
    no_save_password: bool
    patience: Patience
    output: str
    credentials_file: Path | None

    @property
    def fields(self) -> dict[str, Any]:
        """What the client takes of it."""
        return {
            "cpu_millis": self.cpu,
            "memory_gbs": self.memory,
            "environment": Environment(self.environment.upper()),
            "idempotency_key": self.idempotency_key,
        }

    def follow(self, client: Client, accepted: Service) -> None:
        """Keep the password before anything can go wrong, wait when wanted, and print the service."""
        password = accepted.initial_password if isinstance(accepted.initial_password, str) else None
        if password is not None and not self.no_save_password:
            save_password(accepted.endpoint, password)
        try:
            ready = self._wait(client, accepted)
        except (Error, click.Abort):
            if self.no_save_password and password is not None:
                say(f"The password of {accepted.name} is in no file: {password}")
            raise
        extra = [("password", self._told(password)), ("connect", connection_string(accepted.endpoint))]
        shown = msgspec.structs.replace(ready or accepted, initial_password=accepted.initial_password)
        print_service(shown, self.output, extra)

    def _told(self, password: str | None) -> str:
        if password is None:
            return "changed since the service was made; set another one with 'ramet service update-password'"
        return password if self.no_save_password else f"kept in {passwords_path()}"

    def _wait(self, client: Client, accepted: Service) -> Service | None:
        doing = "Creating" if accepted.forked_from is None else "Forking"
        name, wait = accepted.name, client.wait_ready
        return self.patience.follow(wait, accepted.service_id, f"{doing} {name}", f"{name} is READY")


def birth_options(default_size: str, *, both: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of new services; the command gets them as `birth`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_birth(**named: Any) -> Any:
            birth = Birth(**{name: named.pop(name) for name in Birth.__dataclass_fields__})
            return command(birth=birth, **named)

        key = click.option("--idempotency-key", help="The same key and request give the same service again.")
        beside = {"cpu": "; with --memory", "memory": "; with --cpu"} if both else {"cpu": "", "memory": ""}
        cpu = click.option(
            "--cpu", help=f"Thousandths of a core, or 'shared'{beside['cpu']}.  [default: {default_size}]"
        )
        memory = click.option("--memory", help=f"Gigabytes, or 'shared'{beside['memory']}.  [default: {default_size}]")
        stake = click.option(
            "--environment", type=ENVIRONMENT, default="DEV", show_default=True, help="How much is at stake."
        )
        whole = waiting_options(output_option(credentials_option(with_birth)))
        return cpu(memory(stake(key(password_option(whole)))))

    return decorate


@click.command("create")
@click.argument("name")
@click.option(
    "--type", "service_type", type=_TYPE, default="POSTGRES", show_default=True, help="Decides the extensions."
)
@birth_options("shared", both=True)
def create_service(name: str, service_type: str, birth: Birth) -> None:
    """Create a service with an empty database.

    \b
    Examples:
      ramet service create shop
      ramet service create shop --cpu 1000 --memory 4 --environment PROD
      ramet service create vectors --type VECTOR --no-wait -o json
    """
    with open_client(birth.credentials_file) as client:
        kind = ServiceType(service_type.upper())
        birth.follow(client, client.create_service(name, service_type=kind, **birth.fields))


@click.command("fork")
@service_argument
@restore_point_options
@click.option("--dry-run", is_flag=True, help="Only tell what would be made, and in about how much time.")
@click.option("--name", help="Name of the fork.  [default: the parent's name and '-fork']")
@click.option(
    "--quiet/--no-quiet",
    default=None,
    help="Pause scheduled jobs and take foreign credentials away, or leave them.  [default: for DEV forks]",
)
@birth_options("the parent's", both=False)
def fork_service(
    service: str,
    point: ChosenPoint,
    dry_run: bool,
    name: str | None,
    quiet: bool | None,
    birth: Birth,
) -> None:
    """Fork a service: a new one with the data of this one.

    Give exactly one of --now, --last-snapshot, --snapshot and --to-timestamp.

    \b
    Examples:
      ramet service fork shop --now
      ramet service fork shop --last-snapshot --name preview-42
      ramet service fork shop --snapshot before-the-migration
      ramet service fork shop --to-timestamp "10 minutes ago"
      ramet service fork shop --to-timestamp 2026-01-15T10:30:00Z --name before-the-accident
    """
    with open_client(birth.credentials_file) as client:
        parent_id = find_service(client, service).service_id
        chosen = point.fields(client, parent_id)
        if dry_run:
            fields = {**chosen, "name": name, "cpu_millis": birth.cpu, "memory_gbs": birth.memory}
            tag = birth.environment.upper()
            print_plan(client.plan_fork(parent_id, point.strategy, environment_tag=tag, **fields), birth.output)
            return
        forked = client.fork_service(parent_id, point.strategy, name=name, quiet=quiet, **chosen, **birth.fields)
        birth.follow(client, forked)
