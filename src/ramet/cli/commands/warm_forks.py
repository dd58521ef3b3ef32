"""`ramet service warm`: the forks of a service that are made in advance."""

import click

from ramet.api.schemas.services import Service
from ramet.api.schemas.warm_forks import WarmForks
from ramet.cli.ui.durations import Duration
from ramet.cli.ui.keeping import whole
from ramet.cli.ui.options import output_option, service_command
from ramet.cli.ui.output import print_pairs, print_result
from ramet.client import Client
from ramet.model.warm_forks import MOST_FORKS


@service_command("warm")
@click.option("--keep", type=click.IntRange(1, MOST_FORKS), help="Keep so many forks ready.")
@click.option(
    "--max-age", type=Duration(), help="With --keep: give no fork whose state is older, such as 10m.  [default: 10m]"
)
@click.option("--off", is_flag=True, help="Keep none, and delete those that nobody has claimed.")
@click.option("--auto", "automatic", is_flag=True, help="Keep some while the service is forked often, as by default.")
@output_option
def warm_forks(
    client: Client, service: Service, keep: int | None, max_age: float | None, off: bool, automatic: bool, output: str
) -> None:
    """Keep forks of a service ready, so that 'ramet fork' returns at once. Without an option show them.

    A fork gets one of them if the service has committed nothing since it was made, or with --max-age if its state is
    young enough. They give way to other servers when the host is full. By default a service keeps some by itself
    while it is forked ten times an hour or more.

    \b
    Examples:
      ramet service warm shop --keep 5 --max-age 10m
      ramet service warm shop
      ramet fork shop --max-age 10m
      ramet service warm shop --off
    """
    if (keep is not None) + off + automatic > 1 or (max_age is not None and keep is None):
        raise click.UsageError("Give --keep, with or without --max-age, or --off, or --auto.")
    if automatic:
        client.delete_warm_forks(service.service_id)
    if keep is None and not off:
        found = client.get_warm_forks(service.service_id)
    else:
        found = client.set_warm_forks(service.service_id, keep or 0, max_age_seconds=whole(max_age))
    print_result(found, output, lambda: print_pairs(_pairs(found)))


def _pairs(found: WarmForks) -> list[tuple[str, str]]:
    if not found.size:
        when = "now; some are while it is forked often" if found.automatic else "even if it is forked often"
        return [("warm forks", f"none are kept {when}; to keep some: ramet service warm SERVICE --keep 3")]
    ready = f"{found.ready} of {found.size}" + (f", {found.being_made} being made" if found.being_made else "")
    if found.automatic:
        ready += ", because it is forked often"
    oldest = [] if found.oldest_state is None else [("oldest state", found.oldest_state.isoformat())]
    return [("ready", ready), ("oldest allowed", f"{found.max_age_seconds} s"), *oldest]
