"""`ramet events` and `ramet webhook`: what happened, and where it is delivered."""

import sys
import time
from collections.abc import Iterator

import click
from rich.text import Text

from ramet.api.schemas.events import Delivery, Event, Webhook
from ramet.cli.ui.durations import Duration, local_time
from ramet.cli.ui.options import complete_service, find_service, output_option, with_client
from ramet.cli.ui.output import print_data, print_pairs, print_result, print_rows, say
from ramet.cli.ui.printable import printable
from ramet.client import Client
from ramet.ids import is_id

_FOLLOW_SECONDS = 1.0
_COLUMNS = ("at", "id", "type", "service", "reason")
_WEBHOOK_COLUMNS = ("id", "url", "types", "state", "description")
_DELIVERY_COLUMNS = ("created", "id", "type", "status", "attempts", "next attempt", "error")
_COLOURS = {"DELIVERED": "green", "FAILED": "red"}


@click.command("events")
@click.argument("service", required=False, shell_complete=complete_service)
@click.option("-n", "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Most events.")
@click.option("--type", "type_", help="Only events of a type, such as service.ready.")
@click.option("-f", "--follow", is_flag=True, help="Then show events as they happen, until it is interrupted.")
@output_option
@with_client
def list_events(client: Client, service: str | None, limit: int, type_: str | None, follow: bool, output: str) -> None:
    """List events of the project, or of a service, newest first; with --follow the newest is the last.

    \b
    Examples:
      ramet events
      ramet events shop --type service.failed
      ramet events --follow
    """
    query = {} if type_ is None else {"type": type_}
    if service is not None:
        query["service_id"] = service if is_id(service) else find_service(client, service).service_id
    found = client.list_events(limit=str(limit), **query).events
    if not follow:
        print_result(found, output, lambda: print_rows(_COLUMNS, [_row(event) for event in found]))
        return
    for event in _following(client, found, query):
        if output == "table":
            click.echo(printable("  ".join(str(cell) for cell in _row(event))))
        else:
            print_data(event, output, more_follow=True)
        sys.stdout.flush()


def _following(client: Client, found: list[Event], query: dict[str, str]) -> Iterator[Event]:
    """Yield known events, oldest first, and then those that follow."""
    last = 0
    while True:
        yield from reversed(found)
        last = found[0].id if found else last
        time.sleep(_FOLLOW_SECONDS)
        page = client.list_events(limit="500", **query)
        found = [event for event in page.events if event.id > last]
        while page.last_cursor is not None and len(found) % 500 == 0 and found:
            page = client.list_events(limit="500", **query, cursor=page.last_cursor)
            found += [event for event in page.events if event.id > last]


@click.group("webhook")
def webhook_group() -> None:
    """Deliver events to programs: signed, retried, and listed."""


@webhook_group.command("create")
@click.argument("url")
@click.option("--type", "types", multiple=True, help="Deliver events of this type only; repeat it for more.")
@click.option("--description", default="", help="What it is for.")
@output_option
@with_client
def create_webhook(client: Client, url: str, types: tuple[str, ...], description: str, output: str) -> None:
    """Deliver events of the project to URL. Its secret, which verifies signatures, cannot be shown again.

    \b
    Examples:
      ramet webhook create https://hooks.example.com/ramet
      ramet webhook create https://hooks.example.com/ramet --type service.failed --type quota.reached
    """
    made = client.create_webhook(url, types, description)
    print_result(made, output, lambda: print_pairs(_pairs(made)))


@webhook_group.command("list")
@output_option
@with_client
def list_webhooks(client: Client, output: str) -> None:
    """List the webhooks of the project.

    \b
    Example:
      ramet webhook list
    """
    found = client.list_webhooks()
    rows = [(one.id, one.url, _types(one), _state(one), one.description) for one in found]
    print_result(found, output, lambda: print_rows(_WEBHOOK_COLUMNS, rows))


@webhook_group.command("update")
@click.argument("webhook")
@click.option("--url", help="Another URL.")
@click.option("--type", "types", multiple=True, help="Other types of events; repeat it for more.")
@click.option("--all-types", is_flag=True, help="Deliver events of all types.")
@click.option("--description", help="What it is for.")
@click.option("--enable/--disable", "enabled", default=None, help="Begin to deliver again, or stop.")
@output_option
@with_client
def update_webhook(
    client: Client,
    webhook: str,
    url: str | None,
    types: tuple[str, ...],
    all_types: bool,
    description: str | None,
    enabled: bool | None,
    output: str,
) -> None:
    """Change a webhook.

    \b
    Examples:
      ramet webhook update a7c2m9x4qe --enable
      ramet webhook update a7c2m9x4qe --url https://hooks.example.com/new
    """
    given = {"url": url, "types": list(types) or ([] if all_types else None), "description": description}
    changes = {name: value for name, value in {**given, "enabled": enabled}.items() if value is not None}
    changed = client.update_webhook(webhook, **changes)
    print_result(changed, output, lambda: print_pairs(_pairs(changed)))


@webhook_group.command("rotate-secret")
@click.argument("webhook")
@click.option("--overlap", type=Duration(), help="How long both secrets sign.  [default: 1 day]")
@output_option
@with_client
def rotate_secret(client: Client, webhook: str, overlap: float | None, output: str) -> None:
    """Give a webhook a new secret. During the overlap each delivery has a signature with both.

    \b
    Example:
      ramet webhook rotate-secret a7c2m9x4qe --overlap 2h
    """
    made = client.rotate_webhook_secret(webhook, None if overlap is None else round(overlap))
    print_result(made, output, lambda: print_pairs(_pairs(made)))


@webhook_group.command("test")
@click.argument("webhook")
@output_option
@with_client
def test_webhook(client: Client, webhook: str, output: str) -> None:
    """Deliver an event of the type webhook.test.

    \b
    Example:
      ramet webhook test a7c2m9x4qe && ramet webhook deliveries a7c2m9x4qe
    """
    made = client.test_webhook(webhook)
    print_result(made, output, lambda: print_rows(_DELIVERY_COLUMNS, [_delivery_row(made)]))


@webhook_group.command("delete")
@click.argument("webhook")
@with_client
def delete_webhook(client: Client, webhook: str) -> None:
    """Deliver nothing more to a webhook, and forget its deliveries.

    \b
    Example:
      ramet webhook delete a7c2m9x4qe
    """
    client.delete_webhook(webhook)
    say(f"Webhook {webhook} is deleted.")


@webhook_group.command("deliveries")
@click.argument("webhook")
@click.option("-n", "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="Most deliveries.")
@click.option("--status", type=click.Choice(["PENDING", "DELIVERED", "FAILED"]), help="Only those with this status.")
@output_option
@with_client
def list_deliveries(client: Client, webhook: str, limit: int, status: str | None, output: str) -> None:
    """List deliveries to a webhook, newest first, with why the last attempt failed.

    \b
    Example:
      ramet webhook deliveries a7c2m9x4qe --status FAILED
    """
    wanted = {} if status is None else {"status": status}
    found = client.list_deliveries(webhook, limit=str(limit), **wanted).deliveries
    print_result(found, output, lambda: print_rows(_DELIVERY_COLUMNS, [_delivery_row(one) for one in found]))


@webhook_group.command("redeliver")
@click.argument("webhook")
@click.argument("delivery", required=False)
@with_client
def redeliver(client: Client, webhook: str, delivery: str | None) -> None:
    """Make DELIVERY again, or all deliveries to the webhook that failed.

    \b
    Examples:
      ramet webhook redeliver a7c2m9x4qe
      ramet webhook redeliver a7c2m9x4qe msg_…
    """
    say(f"{client.redeliver(webhook, delivery).count} deliveries are made again.")


def _row(event: Event) -> list[str | Text]:
    name = str(event.data.get("service_name", event.service_id or ""))
    reason = str(event.data.get("reason") or event.data.get("code") or "")
    return [local_time(event.at), str(event.id), event.type.value, name, reason.partition("\n")[0]]


def _delivery_row(one: Delivery) -> list[str | Text]:
    status = Text(one.status.value, style=_COLOURS.get(one.status.value, "yellow"))
    next_attempt = local_time(one.next_attempt)
    return [local_time(one.created), one.id, one.type.value, status, str(one.attempts), next_attempt, one.error or ""]


def _pairs(webhook: Webhook) -> list[tuple[str, str | Text]]:
    pairs: list[tuple[str, str | Text]] = [
        ("id", webhook.id),
        ("url", webhook.url),
        ("types", _types(webhook)),
        ("state", _state(webhook)),
    ]
    return pairs if webhook.secret is None else [*pairs, ("secret", webhook.secret)]


def _types(webhook: Webhook) -> str:
    return " ".join(webhook.types) or "all"


def _state(webhook: Webhook) -> str:
    if not webhook.enabled:
        return f"disabled: {webhook.disabled_reason or ''}"
    return "enabled" if webhook.failing_since is None else f"failing since {local_time(webhook.failing_since)}"
