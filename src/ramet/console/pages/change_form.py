"""Changes asked for in a browser: one form for each, which says what it does and asks for confirmation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from litestar import Response

from ramet import acting
from ramet.console.context import CurrentSession
from ramet.console.error_pages import form_status
from ramet.console.rendering import page, redirect
from ramet.console.views.forms import Form, confirm, refused
from ramet.errors import Error, NotFound
from ramet.model.environment import Environment
from ramet.model.replica_set import ReplicaSet
from ramet.model.service import Service
from ramet.redaction import shown_fields

Values = Mapping[str, str]
Target = TypeVar("Target", Service, ReplicaSet)


@dataclass(frozen=True)
class Change(Generic[Target]):
    """A change of a service or a read replica set: a verb, called with what names its target and what is `typed`.

    `operation` is that of the HTTP interface which makes the same change: its right is needed.
    `disruptive` changes interrupt clients or lose data: for a PROD target the user must type its name. `final` ones
    delete the target: the user must always type its name. `fields` names parts of the form. `done` is shown afterwards,
    where the next page does not show the change by itself.
    """

    operation: str
    title: str
    button: str
    explanation: str
    verb: Callable[..., object]
    typed: Callable[[Values], tuple[object, ...]] = lambda _: ()
    disruptive: bool = False
    final: bool = False
    fields: tuple[str, ...] = ()
    done: str = ""


@dataclass(frozen=True)
class ChangeForm(Generic[Target]):
    """The form of a change at `path`.

    `above` are the pages above it as (path, title), the nearest last; `offered` are further values for the template.
    """

    change: Change[Target]
    target: Target
    above: Sequence[tuple[str, str]]
    path: str
    offered: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs_name(self) -> bool:
        """Whether the user must type the target's name."""
        return self.change.final or (self.change.disruptive and self.target.environment is Environment.PROD)

    def show(self, session: CurrentSession, form: Form, *, status_code: int = 200) -> Response[str]:
        """Return the page with the form."""
        return page("change.html", session, view=self, form=form, status_code=status_code, **self.offered)

    def submit(self, session: CurrentSession, fields: Values) -> Response[str] | Response[None]:
        """Make the change and redirect to the page above; show the form again with the error when it is refused."""
        try:
            acting.note(fields=shown_fields(getattr(self.change.verb, "keywords", {})))
            if self.needs_name:
                confirm(self.target.name, fields)
            self.change.verb(session.plane, *_path_of(self.target), *self.change.typed(fields))
        except Error as error:
            return self.show(session, refused(fields, error), status_code=form_status(error))
        above, name = self.above[-2 if self.change.final else -1][0], self.path.rpartition("/")[2]
        return redirect(f"{above}?done={name}" if self.change.done else above)


def _path_of(target: Service | ReplicaSet) -> tuple[str, ...]:
    """Return the ids with which verbs name a target."""
    own = (target.service_id, target.id) if isinstance(target, ReplicaSet) else (target.id,)
    return target.project_id, *own


def verbs_of(changes: Mapping[str, Change[Target]]) -> Mapping[str, str]:
    """Return the option of the handler that makes these changes, by which the audit names each, refused or not."""
    return {name: change.operation for name, change in changes.items()}


def find_change(session: CurrentSession, changes: Mapping[str, Change[Target]], name: str) -> Change[Target]:
    """Return a change by the name in its path. Raises NotFound, and Forbidden where the session has not its right."""
    if name not in changes:
        raise NotFound("NOT_FOUND", "There is no page at this address", "Go back to the services.")
    session.demand(changes[name].operation)
    return changes[name]
