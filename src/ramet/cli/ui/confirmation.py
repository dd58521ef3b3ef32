"""Asking before data of a service is deleted or replaced: --yes and --confirm."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from ramet.api.schemas.services import Service
from ramet.cli.ui.asking import answered
from ramet.cli.ui.output import say
from ramet.model.environment import Environment


@dataclass(frozen=True)
class Confirmation:
    """What the user has confirmed by options: any DEV service with `yes`, or the one with the name `confirmed`."""

    yes: bool
    confirmed: str | None

    def ask(self, service: Service, doing: str, otherwise: str, remark: str = "") -> None:
        """Ask whether to do something to a service unless an option says so; `doing` begins the question, as 'Delete'.

        A `remark` follows it. Raises UsageError, or Exit if the answer is no: `otherwise` is said then.
        """
        is_prod = service.metadata.environment == Environment.PROD
        if self.confirmed is not None:
            if self.confirmed != service.name:
                raise click.UsageError(
                    f"--confirm {self.confirmed!r} is not the name of the service, {service.name!r}."
                )
            return
        if self.yes and not is_prod:
            return
        if self.yes:
            message = f"{service.name} is a PROD service: use --confirm {service.name!r} instead of --yes."
            raise click.UsageError(message)
        what = f"{service.name} ({service.service_id}, {service.metadata.environment})?{remark and ' '}{remark}"
        with answered(f"use --confirm {service.name!r}." if is_prod else "use --yes."):
            if is_prod:
                typed = click.prompt(f"{doing} {what} Type the name of the service", default="", err=True)
                is_confirmed = typed == service.name
            else:
                is_confirmed = click.confirm(f"{doing} {what}", err=True)
        if not is_confirmed:
            say(otherwise)
            raise click.exceptions.Exit(1)


def confirmation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --yes and --confirm; the command gets them as `confirmation`."""

    @functools.wraps(command)
    def with_confirmation(*, yes: bool, confirm: str | None, **named: Any) -> Any:
        return command(confirmation=Confirmation(yes, confirm), **named)

    name = click.option(
        "--confirm",
        metavar="NAME",
        help="Do not ask for confirmation: NAME is the name of the service. Also for PROD services.",
    )
    yes = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation; for DEV services only.")
    return yes(name(with_confirmation))
