"""What following a source by a subscription comes to, where only SQL is allowed."""

from dataclasses import asdict

from msgspec.structs import replace

from ramet.backends.interface.sources import SourceAddress, SourceFacts
from ramet.control.plane import Plane
from ramet.control.ports import endpoint_host
from ramet.imports.findings import Finding, in_order, refused
from ramet.imports.publisher_report import OLDEST_MAJOR, judge_publisher
from ramet.imports.report import judge
from ramet.model.passwords import Secret
from ramet.model.service import Service
from ramet.model.upstream import FollowMethod, Upstream


def plan_logical(
    plane: Plane, source: SourceAddress, password: Secret, wanted: Service, pg_major: int | None
) -> tuple[SourceFacts, list[Finding], Service]:
    """Examine a source; return its contents, the findings with refusals first, and the service that would be made.

    `pg_major` is the version that was asked for.
    """
    facts, destination = plane.backend.sources.examine(source, password, wanted.service_type, pg_major)
    published = plane.backend.subscriptions.examine(source, password)
    major = destination.pg_major or pg_major or destination.newest_major
    if pg_major is None and major < OLDEST_MAJOR:
        major = destination.newest_major
    found = [*judge(facts, destination, owners=True, pg_major=pg_major), *judge_publisher(published, major)]
    if source.sslmode != "disable" and not plane.backend.host.has_tls(major):
        message = f"PostgreSQL {major} of this host has no TLS, which sslmode={source.sslmode} asks for"
        remedy = "Install one with TLS (Debian: postgresql), or use sslmode=disable on a network that you trust."
        found.append(refused("TLS", message, remedy))
    upstream = Upstream(
        method=FollowMethod.LOGICAL,
        **asdict(source),
        system_identifier="",
        bootstrap_role=facts.bootstrap_role,
    )
    service = replace(wanted, pg_major=major, host=endpoint_host(plane, major), upstream=upstream)
    return facts, in_order(found), service
