"""What an orchestrator or a load balancer asks: it needs no credentials, and learns nothing but yes or no."""

from litestar import MediaType, get

from ramet.api.responses import PlaneDependency
from ramet.control.readiness import check_ready


@get(["/livez", "/healthz"], media_type=MediaType.TEXT, sync_to_thread=False)
def livez() -> str:
    """Say that this process answers."""
    return "ok\n"


@get("/readyz", media_type=MediaType.TEXT, sync_to_thread=True)
def readyz(plane: PlaneDependency) -> str:
    """Say that this process can reach its store; 503 while it cannot."""
    check_ready(plane)
    return "ok\n"
