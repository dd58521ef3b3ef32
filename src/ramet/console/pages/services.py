"""The services of a project: searched and shown a page at a time, so that a thousand are as quick as ten."""

from dataclasses import dataclass

from litestar import Response
from litestar.params import FromQuery

from ramet.console.context import Context, SignedIn, read
from ramet.console.rendering import page
from ramet.control.services import list_services
from ramet.model.service import Service, status_of

PAGE_SIZE = 50


@dataclass(frozen=True)
class Listing:
    """One page of the services that a search found. `first` counts from 1; 0: there are none."""

    services: list[Service]
    query: str
    total: int
    found: int
    number: int

    @property
    def first(self) -> int:
        """The place of the first service shown."""
        return (self.number - 1) * PAGE_SIZE + 1 if self.found else 0

    @property
    def last(self) -> int:
        """The place of the last service shown."""
        return min(self.number * PAGE_SIZE, self.found)

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, -(-self.found // PAGE_SIZE))


def search(services: list[Service], query: str, number: int) -> Listing:
    """Return a page of the services, newest first, in which every word of the query occurs."""
    found = matches(services, query)[::-1]
    pages = max(1, -(-len(found) // PAGE_SIZE))
    number = min(max(1, number), pages)
    shown = found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    return Listing(shown, query, len(services), len(found), number)


def matches(services: list[Service], query: str) -> list[Service]:
    """Return the services in which every word of the query occurs."""
    words = query.casefold().split()
    return [service for service in services if all(word in _text(service) for word in words)]


def _text(service: Service) -> str:
    """Return what a service is found by."""
    parent = "" if service.origin is None else f"{service.origin.name} {service.origin.service_id}"
    shown = (service.name, service.id, status_of(service), service.environment, service.service_type, service.port)
    return f"{' '.join(map(str, shown))} {parent}".casefold()


@read("/", sync_to_thread=True)
def list_page(context: Context, session: SignedIn, q: FromQuery[str] = "", number: FromQuery[int] = 1) -> Response[str]:
    """Show the services."""
    listing = search(list_services(context.plane, session.project_id), q[:200], number)
    disk_usage = context.disk_usage.of(listing.services)
    return page("services.html", context, session, listing=listing, disk_usage=disk_usage)
