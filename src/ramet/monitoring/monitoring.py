"""What observes the work of a process: instruments always, and traces where they are wanted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ramet.errors import Invalid
from ramet.model.operation_record import Event
from ramet.monitoring.instruments import Instruments
from ramet.store.operations import Operation

if TYPE_CHECKING:
    from ramet.monitoring.tracing import Tracing


@dataclass(frozen=True)
class Monitoring:
    """The observers of one process."""

    instruments: Instruments
    tracing: "Tracing | None" = None

    def request_observers(self) -> list[Callable[[Any], Callable[[int], None]]]:
        """Return what observes requests; see `ramet.api.methods.Observer`."""
        traced = [] if self.tracing is None else [self.tracing.begin_request]
        return [self.instruments.begin_request, *traced]

    def observe_step(self, before: Operation, after: Operation, event: Event) -> None:
        """Observe the recorded outcome of a step; see `ramet.operations.runner.Runner`."""
        self.instruments.observe_step(before, after, event)
        if self.tracing is not None:
            self.tracing.observe_step(before, after, event)

    def close(self) -> None:
        """Send the last traces."""
        if self.tracing is not None:
            self.tracing.close()


def open_monitoring(version: str, traces_url: str) -> Monitoring:
    """Return the observers of this process. Raises Invalid when traces are wanted and their libraries are missing."""
    return Monitoring(Instruments(version), _tracing(version, traces_url) if traces_url else None)


def _tracing(version: str, url: str) -> "Tracing":
    try:
        from ramet.monitoring.tracing import open_tracing
    except ImportError as error:
        raise Invalid(
            "INVALID_SETTING",
            f"RAMET_TRACES_URL is set, and the libraries for traces are not installed: {error.name} is missing",
            "Install them with: pip install 'ramet[otel]'",
        ) from error
    return open_tracing(url, version)
