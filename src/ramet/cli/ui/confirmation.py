"""Asking before data of a service is deleted or replaced."""

import click

from ramet.api.schemas.services import Service
from ramet.cli.ui.output import say
from ramet.model.environment import Environment


def confirm_change(service: Service, doing: str, otherwise: str, yes: bool, confirm: str | None) -> None:
    """Ask whether to do something to a service unless an option says so; `doing` begins the question, as 'Delete'.

    Raises UsageError, or Exit if the answer is no: `otherwise` is said then.
    """
    is_prod = service.metadata.environment == Environment.PROD
    if confirm is not None:
        if confirm != service.name:
            raise click.UsageError(f"--confirm {confirm!r} is not the name of the service, {service.name!r}.")
        return
    if yes and not is_prod:
        return
    if yes:
        raise click.UsageError(f"{service.name} is a PROD service: use --confirm {service.name!r} instead of --yes.")
    what = f"{service.name} ({service.service_id}, {service.metadata.environment})"
    if is_prod:
        typed = click.prompt(f"{doing} {what}? Type the name of the service", default="", err=True)
        is_confirmed = typed == service.name
    else:
        is_confirmed = click.confirm(f"{doing} {what}?", err=True)
    if not is_confirmed:
        say(otherwise)
        raise click.exceptions.Exit(1)
