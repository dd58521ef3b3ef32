"""Labels, protection and life spans of services."""

from litestar import Response
from litestar.params import JSONBody

from ramet.api.responses import ServicePath, accept, answer, change, router_of
from ramet.api.schemas.life_spans import LabelsInput, LifeSpanInput, SetProtectionInput, SetSleepInput
from ramet.api.schemas.services import Service
from ramet.api.shapes import service_shape
from ramet.control import labels, life_spans, protection, sleep
from ramet.model.life_span import LifeTerms


@change("/extendService", operation_id="extendService", summary="Extend a life span")
def extend_service(at: ServicePath, data: JSONBody[LifeSpanInput]) -> Response[Service]:
    """Change when the service expires. With an empty body its life span begins again, as long as it was granted."""
    terms = LifeTerms(data.ttl_seconds, data.expires_at, data.idle_ttl_seconds)
    return answer(service_shape(life_spans.extend_service(*at, terms)))


@accept("/setSleep", operation_id="setSleep", summary="Change when a service falls asleep")
def set_sleep(at: ServicePath, data: JSONBody[SetSleepInput]) -> Response[Service]:
    """Let the service fall asleep when no client has used it for a while; null: never.

    The first time, and for null, its server restarts.
    """
    return answer(service_shape(sleep.set_sleep(*at, data.sleep_after_seconds)), 202)


@change("/setProtection", operation_id="setProtection", summary="Protect a service")
def set_protection(at: ServicePath, data: JSONBody[SetProtectionInput]) -> Response[Service]:
    """Refuse to delete, reset or restore the service, and do not let it expire; or allow that again."""
    return answer(service_shape(protection.set_protection(*at, protected=data.protected)))


@change("/updateLabels", operation_id="updateLabels", summary="Change labels")
def update_labels(at: ServicePath, data: JSONBody[LabelsInput]) -> Response[Service]:
    """Set labels of the service, and remove those that are null; other labels stay."""
    return answer(service_shape(labels.update_labels(*at, data.labels)))


life_spans_router = router_of(__name__, "Services")
