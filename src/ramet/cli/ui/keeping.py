"""Options of how long a service is kept, its labels, and what happens when its name is taken."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ramet.api.schemas.services import Service
from ramet.cli.ui.durations import Duration
from ramet.client import Keeping
from ramet.errors import Invalid
from ramet.model.names import fork_name, suffixed

Command = TypeVar("Command", bound=Callable[..., Any])

KEPT = ("ttl", "expires_at", "idle_ttl", "sleep_after", "protected", "labels")


class Label(click.ParamType[tuple[str, str]]):
    """A label, written as key=value."""

    name = "label"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return key and value."""
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"{value!r} is not of the form key=value", param, ctx)
        return key, text


def life_span_options(command: Command) -> Command:
    """Add --ttl, --expires-at and --idle-ttl."""
    idle = click.option("--idle-ttl", type=Duration(), help="Delete it after so long without a client's session.")
    at = click.option("--expires-at", metavar="TIME", help="Delete it at this time: RFC 3339 with an offset.")
    ttl = click.option("--ttl", type=Duration(), help="Delete it after so long, such as 2h or 7d.")
    return ttl(at(idle(command)))


def keeping_options(command: Command) -> Command:
    """Add the options of KEPT, --allow-duplicate-name and --if-not-exists."""
    again = click.option("--if-not-exists", is_flag=True, help="If the name is taken, return the service that has it.")
    twice = click.option("--allow-duplicate-name", is_flag=True, help="Do not refuse a name that is taken.")
    labels = click.option("--label", "labels", type=Label(), multiple=True, help="A label; can be repeated.")
    sleep = click.option(
        "--sleep-after", type=Duration(), help="Stop it after so long without a client; the next wakes it."
    )
    protected = click.option("--protected", is_flag=True, help="Refuse to delete, reset or restore it.")
    return life_span_options(sleep(protected(labels(twice(again(command))))))


def keeping_of(
    ttl: float | None,
    expires_at: str | None,
    idle_ttl: float | None,
    sleep_after: float | None,
    protected: bool,
    labels: Sequence[tuple[str, str]],
) -> Keeping:
    """Return what the options request."""
    return Keeping(
        ttl_seconds=whole(ttl),
        expires_at=expires_at,
        idle_ttl_seconds=whole(idle_ttl),
        sleep_after_seconds=whole(sleep_after),
        protected=protected or None,
        labels=dict(labels) or None,
    )


def whole(seconds: float | None) -> int | None:
    """Return a duration in whole seconds."""
    return None if seconds is None else round(seconds)


def find_taken(known: Sequence[Service], names: Sequence[str], *, if_not_exists: bool) -> list[Service]:
    """Return the services that have the names already, if all are there and that is what the user wants.

    Raises Invalid for a name that is taken.
    """
    found = [one for one in known if one.name in names]
    if not found:
        return []
    if if_not_exists and sorted(one.name for one in found) == sorted(names):
        return found
    taken = ", ".join(f"{one.name!r} ({one.service_id})" for one in found[:5])
    if if_not_exists and len(found) > len({one.name for one in found}):
        remedy = "Keep one, and delete the others by their ids ('ramet service delete ID')."
        raise Invalid("NAME_TAKEN", f"Several services have this name: {taken}", remedy)
    raise Invalid(
        "NAME_TAKEN",
        f"A service of this name exists: {taken}",
        "Choose another name, or give --if-not-exists (return that one) or --allow-duplicate-name.",
    )


def free_fork_name(known: Sequence[Service], parent_name: str) -> str:
    """Return the default name of a fork, with a number where it is taken."""
    name, taken = fork_name(parent_name), {one.name for one in known}
    number = 1
    free = name
    while free in taken:
        number += 1
        free = suffixed(name, f"-{number}")
    return free
