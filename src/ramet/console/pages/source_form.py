"""What the forms share that make a service of a database elsewhere: examine the source, or make the service."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from litestar import Response

from ramet.console.context import CurrentSession
from ramet.console.error_pages import form_status
from ramet.console.pages.services import create_request, created_page
from ramet.console.rendering import page
from ramet.console.views.forms import Form, new_key, refused, sizes
from ramet.control.plane import Plane
from ramet.control.requests import Accepted
from ramet.errors import Error
from ramet.imports.verbs import SourcePlan, SourceRequest
from ramet.model.passwords import Secret

Request = TypeVar("Request", bound=SourceRequest)


@dataclass(frozen=True)
class SourceForm(Generic[Request]):
    """The form of a template: what its fields request, and the verbs that examine the source and make the service."""

    template: str
    request: Callable[[Mapping[str, str]], Request]
    plan: Callable[[Plane, str, Request], SourcePlan]
    make: Callable[[Plane, str, Request, str | None], Accepted]

    def show(self, session: CurrentSession, values: Mapping[str, str]) -> Response[str]:
        """Return the page with the empty form, or with the values of an earlier one."""
        return self._page(session, Form({**values, "key": new_key()}))

    def submit(self, session: CurrentSession, fields: Mapping[str, str]) -> Response[str] | Response[None]:
        """Examine a source, or make the service; the form never contains the password again."""
        shown = {name: value for name, value in fields.items() if name != "password"}
        try:
            request = self.request(fields)
            if fields.get("action") == "check":
                plan = self.plan(session.plane, session.project_id, request)
                return self._page(session, Form(shown), findings=plan.findings, source=str(plan.source))
            accepted = self.make(session.plane, session.project_id, request, fields.get("key"))
        except Error as error:
            return self._page(session, refused(shown, error), status_code=form_status(error))
        return created_page(session, accepted)

    def _page(self, session: CurrentSession, form: Form, *, status_code: int = 200, **found: Any) -> Response[str]:
        majors = session.plane.backend.upgrades.majors()
        values = {"sizes": sizes(session.plane), "majors": majors, "findings": None, "source": "", **found}
        return page(self.template, session, status_code=status_code, form=form, **values)


def source_of(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that requests for a service of a database elsewhere have in common."""
    return {
        "create": create_request(values),
        "url": values.get("url", ""),
        "password": Secret(values.get("password", "")),
        "root_certificate": values.get("root_certificate") or None,
    }
