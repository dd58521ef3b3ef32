"""`ramet service`: list, get, create, fork, start, stop, delete."""

import time
from pathlib import Path

import click
import msgspec

from ramet.api.wire import Service
from ramet.cli.connection import connection_string
from ramet.cli.options import (
    credentials_option,
    find_service,
    open_client,
    output_option,
    password_option,
    service_argument,
    waiting_options,
)
from ramet.cli.output import say
from ramet.cli.passwords import forget_password, passwords_path, save_password
from ramet.cli.progress import showing_progress
from ramet.cli.restore import print_plan
from ramet.cli.service_views import print_service, print_services
from ramet.client import Client
from ramet.model.fork import ForkStrategy
from ramet.model.service import Environment, ServiceType

_ENVIRONMENT = click.Choice([one.value for one in Environment], case_sensitive=False)
_TYPE = click.Choice([one.value for one in ServiceType], case_sensitive=False)


@click.group("service")
def service_group() -> None:
    """Create, fork, list and change services."""


@service_group.command("list")
@output_option
@credentials_option
def list_services(output: str, credentials_file: Path | None) -> None:
    """List all services of the project, forks below their parents.

    \b
    Examples:
      ramet service list
      ramet service list -o json | jq -r '.[] | select(.status == "READY") | .name'
    """
    with open_client(credentials_file) as client:
        services = client.list_services()
    print_services(services, output)
    if not services and output == "table":
        say("No services yet. Make one: ramet service create NAME")


@service_group.command("get")
@service_argument
@output_option
@credentials_option
def get_service(service: str, output: str, credentials_file: Path | None) -> None:
    """Show one service, by its id or its name.

    \b
    Examples:
      ramet service get shop
      ramet service get d1k5vk7hf2 -o yaml
    """
    with open_client(credentials_file) as client:
        print_service(find_service(client, service), output)


@service_group.command("create")
@click.argument("name")
@click.option(
    "--type", "service_type", type=_TYPE, default="POSTGRES", show_default=True, help="Decides the extensions."
)
@click.option("--cpu", help="Thousandths of a core, or 'shared'; with --memory.  [default: shared]")
@click.option("--memory", help="Gigabytes, or 'shared'; with --cpu.  [default: shared]")
@click.option("--environment", type=_ENVIRONMENT, default="DEV", show_default=True, help="How much is at stake.")
@click.option("--idempotency-key", help="The same key and request give the same service again.")
@password_option
@waiting_options
@output_option
@credentials_option
def create_service(
    name: str,
    service_type: str,
    cpu: str | None,
    memory: str | None,
    environment: str,
    idempotency_key: str | None,
    no_save_password: bool,
    no_wait: bool,
    wait_timeout: float,
    output: str,
    credentials_file: Path | None,
) -> None:
    """Create a service with an empty database.

    \b
    Examples:
      ramet service create shop
      ramet service create shop --cpu 1000 --memory 4 --environment PROD
      ramet service create vectors --type VECTOR --no-wait -o json
    """
    begun = time.monotonic()
    with open_client(credentials_file) as client:
        accepted = client.create_service(
            name,
            service_type=ServiceType(service_type.upper()),
            cpu_millis=cpu,
            memory_gbs=memory,
            environment=Environment(environment.upper()),
            idempotency_key=idempotency_key,
        )
        _follow_birth(client, accepted, begun, None if no_wait else wait_timeout, not no_save_password, output)


@service_group.command("fork")
@service_argument
@click.option("--now", is_flag=True, help="With all that is committed at this moment.")
@click.option("--last-snapshot", is_flag=True, help="With the data of the parent's newest snapshot.")
@click.option("--to-timestamp", metavar="TIME", help="With the data as of a past moment: RFC 3339 with an offset.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be made, and in about how much time.")
@click.option("--name", help="Name of the fork.  [default: the parent's name and '-fork']")
@click.option("--cpu", help="Thousandths of a core, or 'shared'.  [default: the parent's]")
@click.option("--memory", help="Gigabytes, or 'shared'.  [default: the parent's]")
@click.option("--environment", type=_ENVIRONMENT, default="DEV", show_default=True, help="How much is at stake.")
@click.option("--idempotency-key", help="The same key and request give the same fork again.")
@password_option
@waiting_options
@output_option
@credentials_option
def fork_service(
    service: str,
    now: bool,
    last_snapshot: bool,
    to_timestamp: str | None,
    dry_run: bool,
    name: str | None,
    cpu: str | None,
    memory: str | None,
    environment: str,
    idempotency_key: str | None,
    no_save_password: bool,
    no_wait: bool,
    wait_timeout: float,
    output: str,
    credentials_file: Path | None,
) -> None:
    """Fork a service: a new one with the data of this one. Give exactly one of --now, --last-snapshot, --to-timestamp.

    \b
    Examples:
      ramet service fork shop --now
      ramet service fork shop --last-snapshot --name preview-42
      ramet service fork shop --to-timestamp 2026-01-15T10:30:00Z --name before-the-accident
    """
    strategy = _strategy(now, last_snapshot, to_timestamp)
    begun = time.monotonic()
    with open_client(credentials_file) as client:
        parent_id = find_service(client, service).service_id
        if dry_run:
            fields = {"target_time": to_timestamp, "name": name, "cpu_millis": cpu, "memory_gbs": memory}
            print_plan(client.plan_fork(parent_id, strategy, environment_tag=environment.upper(), **fields), output)
            return
        accepted = client.fork_service(
            parent_id,
            strategy,
            target_time=to_timestamp,
            name=name,
            cpu_millis=cpu,
            memory_gbs=memory,
            environment=Environment(environment.upper()),
            idempotency_key=idempotency_key,
        )
        _follow_birth(client, accepted, begun, None if no_wait else wait_timeout, not no_save_password, output)


@service_group.command("start")
@service_argument
@waiting_options
@output_option
@credentials_option
def start_service(service: str, no_wait: bool, wait_timeout: float, output: str, credentials_file: Path | None) -> None:
    """Resume a paused service.

    \b
    Example:
      ramet service start shop
    """
    begun = time.monotonic()
    with open_client(credentials_file) as client:
        changed = client.start_service(find_service(client, service).service_id)
        if not no_wait:
            with showing_progress(f"Resuming {changed.name}", begun) as progress:
                changed = client.wait_ready(changed.service_id, wait_timeout, progress.seen)
            say(f"{changed.name} is READY after {progress.elapsed()}.", "green")
    print_service(changed, output)


@service_group.command("stop")
@service_argument
@waiting_options
@output_option
@credentials_option
def stop_service(service: str, no_wait: bool, wait_timeout: float, output: str, credentials_file: Path | None) -> None:
    """Pause a service: its server stops, its data stays, and it can be forked all the same.

    \b
    Example:
      ramet service stop shop --wait-timeout 5m
    """
    begun = time.monotonic()
    with open_client(credentials_file) as client:
        changed = client.stop_service(find_service(client, service).service_id)
        if not no_wait:
            with showing_progress(f"Pausing {changed.name}", begun) as progress:
                changed = client.wait_paused(changed.service_id, wait_timeout, progress.seen)
            say(f"{changed.name} is PAUSED after {progress.elapsed()}.", "green")
    print_service(changed, output)


@service_group.command("delete")
@service_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask; for DEV services.")
@click.option("--confirm", metavar="NAME", help="Do not ask: NAME is the service's name. PROD services need it.")
@waiting_options
@credentials_option
def delete_service(
    service: str, yes: bool, confirm: str | None, no_wait: bool, wait_timeout: float, credentials_file: Path | None
) -> None:
    """Delete a service with its snapshots and its archive. Forks of it live on.

    \b
    Examples:
      ramet service delete preview-42 --yes
      ramet service delete shop --confirm shop
    """
    begun = time.monotonic()
    with open_client(credentials_file) as client:
        doomed = find_service(client, service)
        _confirm(doomed, yes, confirm)
        client.delete_service(doomed.service_id)
        forget_password(doomed.endpoint)
        if not no_wait:
            with showing_progress(f"Deleting {doomed.name}", begun) as progress:
                client.wait_deleted(doomed.service_id, wait_timeout, progress.seen)
            say(f"{doomed.name} is gone.", "green")


def _strategy(now: bool, last_snapshot: bool, to_timestamp: str | None) -> ForkStrategy:
    chosen = [
        strategy
        for strategy, is_given in (
            (ForkStrategy.NOW, now),
            (ForkStrategy.LAST_SNAPSHOT, last_snapshot),
            (ForkStrategy.PITR, to_timestamp is not None),
        )
        if is_given
    ]
    if len(chosen) != 1:
        raise click.UsageError("Give exactly one of --now, --last-snapshot and --to-timestamp TIME.")
    return chosen[0]


def _follow_birth(
    client: Client, accepted: Service, begun: float, wait_seconds: float | None, saves_password: bool, output: str
) -> None:
    """Keep the password before anything can go wrong, wait when wanted, and print the service."""
    password = accepted.initial_password if isinstance(accepted.initial_password, str) else ""
    if saves_password:
        save_password(accepted.endpoint, password)
    service = accepted
    if wait_seconds is not None:
        goal = "Creating" if accepted.forked_from is None else "Forking"
        with showing_progress(f"{goal} {accepted.name}", begun) as progress:
            service = client.wait_ready(accepted.service_id, wait_seconds, progress.seen)
        say(f"{service.name} is READY after {progress.elapsed()}.", "green")
    extra = [("password", f"kept in {passwords_path()}" if saves_password else password)]
    extra.append(("connect", connection_string(service.endpoint)))
    print_service(msgspec.structs.replace(service, initial_password=password), output, extra)


def _confirm(service: Service, yes: bool, confirm: str | None) -> None:
    """Make sure that the deletion is meant; raises UsageError or Exit when it is not."""
    is_prod = service.metadata.environment == Environment.PROD
    if confirm is not None:
        if confirm != service.name:
            raise click.UsageError(f"--confirm {confirm!r} is not the service's name, {service.name!r}.")
        return
    if yes and not is_prod:
        return
    if yes:
        raise click.UsageError(f"{service.name} is a PROD service: confirm with --confirm {service.name!r}.")
    what = f"{service.name} ({service.service_id}, {service.metadata.environment})"
    if is_prod:
        is_meant = click.prompt(f"Type the name to delete {what} for good", default="", err=True) == service.name
    else:
        is_meant = click.confirm(f"Delete {what} for good?", err=True)
    if not is_meant:
        say("Nothing was deleted.")
        raise click.exceptions.Exit(1)
