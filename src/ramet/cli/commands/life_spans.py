"""`ramet service extend`, `sleep`, `protect`, `unprotect` and `label`: how long services are kept, awake and at all."""

import click
from msgspec import UNSET

from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import Duration
from ramet.cli.ui.keeping import life_span_options, whole
from ramet.cli.ui.options import output_option, service_command
from ramet.cli.ui.output import say
from ramet.cli.ui.service_views import print_service
from ramet.client import Client


@service_command("extend")
@life_span_options
@click.option("--never", is_flag=True, help="The service does not expire any more.")
@output_option
def extend_service(
    client: Client,
    service: Service,
    ttl: float | None,
    expires_at: str | None,
    idle_ttl: float | None,
    never: bool,
    output: str,
) -> None:
    """Change when a service expires. Without an option its life span begins again, as long as it was granted.

    \b
    Examples:
      ramet service extend preview-42
      ramet service extend preview-42 --ttl 8h
      ramet service extend preview-42 --idle-ttl 30m
      ramet service extend preview-42 --never
    """
    if never and (ttl or expires_at or idle_ttl):
        raise click.UsageError("--never cannot be used with --ttl, --expires-at or --idle-ttl.")
    kept = None if never else UNSET
    extended = client.extend_service(
        service.service_id,
        ttl_seconds=kept if ttl is None else whole(ttl),
        expires_at=UNSET if expires_at is None else expires_at,
        idle_ttl_seconds=kept if idle_ttl is None else whole(idle_ttl),
    )
    print_service(extended, output)


@service_command("sleep")
@click.option("--after", type=Duration(), help="Fall asleep after so long without a client, such as 15m.")
@click.option("--never", is_flag=True, help="Stay awake.")
@output_option
def sleep_service(client: Client, service: Service, after: float | None, never: bool, output: str) -> None:
    """Let a service fall asleep when it is not used. The next client to connect wakes it, and waits for that.

    The first time, and with --never, the server restarts.

    \b
    Examples:
      ramet service sleep preview-42 --after 15m
      ramet service sleep preview-42 --never
    """
    if never is (after is not None):
        raise click.UsageError("Give either --after or --never.")
    print_service(client.set_sleep(service.service_id, whole(after)), output)


@service_command("protect")
def protect(client: Client, service: Service) -> None:
    """Refuse to delete, reset or restore a service, and do not let it expire.

    \b
    Example:
      ramet service protect shop
    """
    client.set_protection(service.service_id, protected=True)
    say(f"{service.name} is protected.", "green")


@service_command("unprotect")
def unprotect(client: Client, service: Service) -> None:
    """Allow again to delete, reset or restore a service.

    \b
    Example:
      ramet service unprotect shop
    """
    client.set_protection(service.service_id, protected=False)
    say(f"{service.name} is not protected any more.", "green")


@service_command("label")
@click.argument("labels", nargs=-1, required=True, metavar="KEY=VALUE...")
@output_option
def label(client: Client, service: Service, labels: tuple[str, ...], output: str) -> None:
    """Set labels of a service; KEY- removes one.

    \b
    Examples:
      ramet service label preview-42 owner=ada pr=42
      ramet service label preview-42 pr-
    """
    print_service(client.update_labels(service.service_id, dict(map(_change, labels))), output)


def _change(text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not equals and key.endswith("-"):
        return key[:-1], None
    if not equals:
        raise click.UsageError(f"{text!r} is neither KEY=VALUE nor KEY-.")
    return key, value
