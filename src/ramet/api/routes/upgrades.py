"""Upgrades to another major version of PostgreSQL."""

import msgspec
from litestar import Response
from litestar.params import JSONBody

from ramet.api.parameters import IdempotencyKey, UpgradeId, checked_key
from ramet.api.responses import ServicePath, accept, answer, read_in_thread, router_of
from ramet.api.schemas.upgrades import ServiceUpgrade, Upgrade, Upgrades
from ramet.model.passwords import Secret
from ramet.upgrades import verbs
from ramet.upgrades.verbs import UpgradeRequest


@accept("/upgrades", operation_id="upgradeService", summary="Upgrade a service")
def upgrade_service(
    at: ServicePath, data: JSONBody[ServiceUpgrade], idempotency_key: IdempotencyKey = None
) -> Response[Upgrade]:
    """Accept the upgrade of a service to another major version, after it was tried on a fork; with trial only that.

    The service is stopped for a short time. Its state before remains, as a paused service with the id of the upgrade.
    When anything fails, the service serves as before. An upgrade that cannot succeed is refused with all reasons.
    """
    request = UpgradeRequest(data.to_version, data.trial is True, data.keep_fork is True)
    accepted = verbs.upgrade_service(*at, request, checked_key(idempotency_key))
    found = verbs.get_upgrade(*at, accepted.service.id)
    return answer(upgrade_shape(found, accepted.initial_password), 202)


@read_in_thread("/upgrades", operation_id="getUpgrades", summary="List the upgrades of a service")
def list_upgrades(at: ServicePath) -> Response[Upgrades]:
    """The upgrades that were tried, newest first, with their reports."""
    return answer(Upgrades([upgrade_shape(one) for one in verbs.list_upgrades(*at)]))


@read_in_thread("/upgrades/{upgrade_id:str}", operation_id="getUpgrade", summary="Get an upgrade")
def get_upgrade(at: ServicePath, upgrade_id: UpgradeId) -> Response[Upgrade]:
    """How far an upgrade is, and its report. Poll this to see it end."""
    return answer(upgrade_shape(verbs.get_upgrade(*at, upgrade_id)))


def upgrade_shape(found: verbs.Upgrade, password: Secret | None = None) -> Upgrade:
    """Return what clients see of an upgrade."""
    report = found.report
    known = {
        "upgrade_id": found.trial.id,
        "service_id": found.service_id,
        "status": found.status,
        "started_at": found.started_at,
        "finished_at": found.finished_at,
        "trial": report["is_trial"],
        "keep_fork": report["keeps"],
        "previous_service_id": found.previous_service_id,
        "initial_password": password.reveal() if password is not None and report["keeps"] else None,
        "step": found.step,
        "progress": found.progress,
        "error": found.error,
        "downtime_seconds": found.downtime_seconds,
        "plans_note": report["statements_note"],
    }
    return msgspec.convert({**report, **known}, Upgrade)


upgrades_router = router_of(__name__, "Services")
