"""What a change asked for in a browser is made of: its words, its form, its confirmation, and where it leads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from litestar import Response

from ramet.console.context import ConsoleContext, CurrentSession
from ramet.console.error_pages import form_status
from ramet.console.rendering import HEADERS, page
from ramet.console.views.forms import Form, Protected, confirm, refused, sizes
from ramet.control.plane import Plane
from ramet.errors import Error, NotFound
from ramet.model.service import Environment

Values = Mapping[str, str]
Thing = TypeVar("Thing", bound=Protected)


@dataclass(frozen=True)
class Change(Generic[Thing]):
    """A change to a thing. `hurts`: it interrupts clients or loses something, so PROD things want their name typed.

    `final` things are gone afterwards: they want it always. `fields` names parts of the form, `done` tells that it was
    accepted where the page that follows does not show it by itself.
    """

    title: str
    button: str
    explanation: str
    perform: Callable[[Plane, Thing, Values], object]
    hurts: bool = False
    final: bool = False
    fields: tuple[str, ...] = ()
    done: str = ""

    def needs_name(self, thing: Thing) -> bool:
        """Tell whether the thing's name has to be typed."""
        return self.final or (self.hurts and thing.environment is Environment.PROD)


@dataclass(frozen=True)
class Place:
    """Where a change is asked for: the pages above it as (path, title), the nearest last, and its own path."""

    above: Sequence[tuple[str, str]]
    path: str


def find_change(verbs: Mapping[str, Change[Thing]], name: str) -> Change[Thing]:
    """Return a verb by the name that stands in a path. Raises NotFound."""
    if name not in verbs:
        raise NotFound("NOT_FOUND", "There is no such page", "Go back to the services.")
    return verbs[name]


def ask(
    context: ConsoleContext,
    session: CurrentSession,
    verb: Change[Thing],
    thing: Thing,
    place: Place,
    form: Form,
    **values: Any,
) -> Response[str]:
    """Return the page that tells what the change does and asks for what it needs."""
    choices = sizes(context.plane, own=values.pop("own_size", False), present=values.pop("present_size", None))
    return page(
        "change.html",
        context,
        session,
        thing=thing,
        verb=verb,
        place=place,
        form=form,
        needs_name=verb.needs_name(thing),
        sizes=choices if "size" in verb.fields else [],
        **values,
    )


def perform(
    context: ConsoleContext,
    session: CurrentSession,
    verb: Change[Thing],
    thing: Thing,
    place: Place,
    fields: Values,
    **values: Any,
) -> Response[str] | Response[None]:
    """Make the change and go on to the page above; or ask again, with what is wrong beside the field that caused it."""
    try:
        if verb.needs_name(thing):
            confirm(thing, fields)
        verb.perform(context.plane, thing, fields)
    except Error as error:
        return ask(
            context, session, verb, thing, place, refused(fields, error), status_code=form_status(error), **values
        )
    above, name = place.above[-2 if verb.final else -1][0], place.path.rpartition("/")[2]
    where = f"{above}?done={name}" if verb.done else above
    return Response(None, status_code=303, headers={**HEADERS, "Location": where})
