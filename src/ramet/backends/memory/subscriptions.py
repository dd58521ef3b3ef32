"""Subscriptions of the backend in memory: to the source that a test has set for imports."""

from dataclasses import dataclass, field

from ramet.backends.interface.sources import SourceAddress
from ramet.backends.interface.subscriptions import PublisherFacts, SubscriptionState, missing_subscription
from ramet.backends.interface.values import Progress, Server
from ramet.backends.memory.sources import MemorySources
from ramet.backends.memory.volumes import Memory, Row
from ramet.errors import Invalid
from ramet.model.passwords import Secret
from ramet.model.upstream import own_slot

_PLAIN = PublisherFacts(18, "logical", False, True, True, 10, 10, 0, 0)


@dataclass
class MemorySubscriptions:
    """Copies all rows at once; obeys ramet.backends.interface.subscriptions.Subscriptions.

    `blocked` is what publications and slots of the source wait for now.
    """

    memory: Memory
    sources: MemorySources
    facts: PublisherFacts = _PLAIN
    published: set[str] = field(default_factory=set)
    subscribed: set[str] = field(default_factory=set)
    blocked: str | None = None

    def examine(self, source: SourceAddress, password: Secret) -> PublisherFacts:
        if password != self.sources.password:
            raise Invalid("SOURCE_UNREADABLE", f"The source {source} could not be examined", "wrong password")
        return self.facts

    def publish(self, server: Server, source: SourceAddress, sealed: str) -> str | None:
        if self.blocked is None:
            self.published.add(server.service_id)
        return self.blocked

    def subscribe(self, server: Server) -> None:
        self.memory.running(server.service_id)
        self.subscribed.add(server.service_id)

    def observe(self, server: Server) -> SubscriptionState:
        """Bring what is missing."""
        volume = self.memory.running(server.service_id)
        if server.service_id not in self.subscribed:
            return SubscriptionState(0, 0, None, missing_subscription(own_slot(server.service_id)))
        with self.memory.lock:
            volume.rows[:] = [Row(self.memory.clock(), value) for value in self.sources.rows]
        return SubscriptionState(1, 1, 0)

    def finish(self, server: Server, promotion_id: str, timeout_seconds: float) -> Progress:
        if server.service_id in self.subscribed:
            self.observe(server)
        self.discard(server.service_id)
        return Progress({"sequences": 0})

    def detach(self, server: Server) -> None:
        self.memory.running(server.service_id)
        self.subscribed.discard(server.service_id)

    def discard(self, service_id: str) -> str | None:
        self.subscribed.discard(service_id)
        self.published.discard(service_id)
        return None
