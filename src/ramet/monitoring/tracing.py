"""Traces for OpenTelemetry: of requests, and of the operations that they submit, step by step.

This module needs the extra `ramet[otel]`; only `monitoring.py` imports it, and only where traces are wanted. The place
of an operation in its trace is stored with it, so that any process can continue the trace. The span of an operation has
an identifier that is derived from the operation's, so that its steps can name it before it ends.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ramet.model.operation_record import Event
from ramet.model.status import OperationStatus
from ramet.store.operations import Operation
from ramet.telemetry import TRACE_KEY, trace_parent

_UNTRACED = ("/livez", "/healthz", "/readyz", "/metrics")
_FAULTS = ("RETRIED", "ABANDONED", "UNDO_RETRIED")
_OVER = (OperationStatus.SUCCEEDED, OperationStatus.FAILED)
_HEADER = "traceparent"


class Tracing:
    """The traces of one process, which sends finished spans in the background."""

    def __init__(self, version: str, processor: SpanProcessor) -> None:
        self._ids = _Ids()
        resource = Resource.create({"service.name": "ramet", "service.version": version})
        self._provider = TracerProvider(resource=resource, id_generator=self._ids)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("ramet", version)
        self._propagator = TraceContextTextMapPropagator()

    def begin_request(self, scope: Any) -> Callable[[int], None]:
        """Begin the span of a request, below the caller's if that sent one; see `ramet.api.methods.Observer`."""
        if scope["path"] in _UNTRACED:
            return lambda _status: None
        sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        span = self._tracer.start_span(scope["method"], self._propagator.extract(sent), SpanKind.SERVER)
        trace_parent.set(self._carried(span.get_span_context()))

        def observe(status: int) -> None:
            if status == 0:
                route = scope.get("path_template") or ""
                span.update_name(f"{scope['method']} {route}".strip())
                span.set_attributes({"http.request.method": scope["method"], "http.route": route})
                span.end()
                return
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))

        return observe

    def observe_step(self, before: Operation, after: Operation, event: Event) -> None:
        """Send the span of a step that has this outcome, and that of its operation when it is over."""
        above = self._parent_of(before)
        own = _own_context(before, above)
        names = {"ramet.operation": before.id, "ramet.procedure": before.procedure, "ramet.subject": before.subject}
        ended = int(event.at.timestamp() * 1e9)
        step = self._tracer.start_span(
            f"{before.procedure}.{before.step}",
            _below(own),
            attributes={**names, "ramet.step": before.step, "ramet.outcome": event.outcome},
            start_time=int(before.step_started_here_at * 1e9),
        )
        if event.outcome in _FAULTS:
            step.set_status(Status(StatusCode.ERROR, event.error))
        step.end(ended)
        if after.status in _OVER:
            with self._ids.next(own):
                whole = self._tracer.start_span(
                    before.procedure,
                    _below(above) if above else Context(),
                    attributes=names,
                    start_time=int(before.created_at.timestamp() * 1e9),
                )
            if after.status is OperationStatus.FAILED:
                whole.set_status(Status(StatusCode.ERROR, after.error))
            whole.end(ended)

    def close(self) -> None:
        """Send what is not sent yet, and stop."""
        self._provider.shutdown()

    def _carried(self, context: SpanContext) -> str:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, _below(context))
        return carrier.get(_HEADER, "")

    def _parent_of(self, operation: Operation) -> SpanContext | None:
        """Return the span that submitted an operation; None for what Ramet began by itself."""
        stored = {_HEADER: str(operation.state.get(TRACE_KEY, ""))}
        found = get_current_span(self._propagator.extract(stored, Context())).get_span_context()
        return found if found.is_valid else None


class _Ids(RandomIdGenerator):
    """Random identifiers, except for the next span of this thread inside `next`."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    @contextmanager
    def next(self, context: SpanContext) -> Iterator[None]:
        self._of_thread.context = context
        try:
            yield
        finally:
            self._of_thread.context = None

    def generate_span_id(self) -> int:
        wanted: SpanContext | None = getattr(self._of_thread, "context", None)
        return super().generate_span_id() if wanted is None else wanted.span_id

    def generate_trace_id(self) -> int:
        wanted: SpanContext | None = getattr(self._of_thread, "context", None)
        return super().generate_trace_id() if wanted is None else wanted.trace_id


def open_tracing(url: str, version: str) -> Tracing:
    """Return what sends spans to an OTLP receiver over HTTP, whose address ends in /v1/traces."""
    return Tracing(version, BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))


def _own_context(operation: Operation, above: SpanContext | None) -> SpanContext:
    trace_id = _derived(operation.id, 16) if above is None else above.trace_id
    flags = TraceFlags(TraceFlags.SAMPLED) if above is None else above.trace_flags
    return SpanContext(trace_id, _derived(operation.id, 8), is_remote=True, trace_flags=flags)


def _below(context: SpanContext) -> Context:
    return set_span_in_context(NonRecordingSpan(context), Context())


def _derived(operation_id: str, length: int) -> int:
    return int.from_bytes(hashlib.sha256(operation_id.encode()).digest()[:length]) or 1
