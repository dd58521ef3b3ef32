"""A browser without scripts: follows links, fills forms, keeps cookies."""

import html
import re
from types import TracebackType

import httpx

from harness.waiting import eventually
from ramet.control import replica_sets, services
from ramet.control.requests import ForkRequest
from ramet.control.services import stop_service
from ramet.model.fork import ForkStrategy
from ramet.model.service import Service, status_of
from ramet.model.status import Status
from tests.audited import check_audited
from tests.cli.world import World
from tests.worlds import fork_service

_INPUT = re.compile(r'<input[^>]*name="(?P<name>[^"]+)"[^>]*value="(?P<value>[^"]*)"')


class Visitor:
    """Somebody who looks at the console of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.origin = world.base_url.removesuffix("/public/api/v1")
        self.client = httpx.Client(
            base_url=self.origin, follow_redirects=False, timeout=250, event_hooks={"response": [self._check]}
        )

    def __enter__(self) -> "Visitor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.close()

    def _check(self, response: httpx.Response) -> None:
        check_audited(self.world.runtime.store, response)

    @property
    def link(self) -> str:
        """A link that signs in once."""
        return self.origin + self.world.runtime.console.make_link(self.world.public_key)

    def sign_in(self) -> httpx.Response:
        keys = {"public_key": self.world.public_key, "secret_key": self.world.secret.reveal()}
        return self.client.post("/console/sign-in", data=keys)

    def see(self, path: str, status: int = 200) -> str:
        """Return a page's text."""
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.text

    def send(self, path: str, **fields: str) -> httpx.Response:
        """Send the form of a page, with some fields filled in."""
        shown = [found for found in _INPUT.finditer(self.see(path)) if 'type="checkbox"' not in found[0]]
        hidden = {found["name"]: html.unescape(found["value"]) for found in shown}
        hidden.pop("strategy", None)
        hidden.pop("service_type", None)
        return self.client.post(path, data={**hidden, **fields})

    def ready(self, name: str = "shop") -> Service:
        """Make a service through its form, and return it when it is READY."""
        answer = self.send("/console/new", name=name, service_type="POSTGRES", size="shared", environment="DEV")
        assert answer.status_code == 200, answer.text
        return self.settled(name)

    def settled(self, name: str) -> Service:
        """Return the newest service of that name when it is READY."""
        eventually(lambda: status_of(self.named(name)) is Status.READY)
        return self.named(name)

    def named(self, name: str) -> Service:
        listed = services.list_services(self.world.runtime.plane, self.world.project.id)
        return next(service for service in reversed(listed) if service.name == name)


def make_family(visitor: Visitor) -> None:
    """Make a family of services with one that is paused, one that is PROD, and one that has replicas."""
    visitor.sign_in()
    shop = visitor.ready("shop")
    plane = visitor.world.runtime.plane
    replica_sets.create_set(plane, shop.project_id, shop.id, replica_sets.ReplicaSetRequest("reports", 2, 500, 2))
    for strategy, name in ((ForkStrategy.NOW, "preview"), (ForkStrategy.LAST_SNAPSHOT, "nightly")):
        fork_service(plane, shop.project_id, shop.id, ForkRequest(strategy, name))
        visitor.settled(name)
    visitor.send(f"/console/services/{visitor.named('nightly').id}/environment", environment="PROD")
    stop_service(plane, shop.project_id, visitor.named("preview").id)
    eventually(lambda: visitor.named("preview").paused)
