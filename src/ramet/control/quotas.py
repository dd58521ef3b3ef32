"""What a project, and one key of it, may have at once: checked in the transaction that adds to it."""

from collections.abc import Sequence

import sqlalchemy as sa

from ramet.errors import Exhausted
from ramet.model.keys import ApiKey
from ramet.model.project import ProjectLimits
from ramet.model.quota import Quota
from ramet.model.service import Service
from ramet.store import services


def check_quotas(caller: ApiKey | None, tx: sa.Connection, limits: ProjectLimits, new: Sequence[Service]) -> None:
    """Raise Exhausted when a project, or the caller's key, would have more than it may with these new services."""
    project_id, forks = new[0].project_id, sum(one.origin is not None for one in new)
    has, has_forks = services.count_live(tx, project_id)
    _check_counts("The project", limits, has + len(new), has_forks + forks)
    if caller is not None and caller.project_id == project_id:
        has, has_forks = services.count_live(tx, project_id, made_by=caller.public_key)
        _check_counts(f"Key {caller.public_key}", caller.limits, has + len(new), has_forks + forks)


def _check_counts(whose: str, quota: Quota, services: int, forks: int) -> None:
    """Raise Exhausted when a project or key would have more services, or forks among them, than it may."""
    for name, what, most, wanted in (
        ("max_services", "services", quota.max_services, services),
        ("max_forks", "forks", quota.max_forks, forks),
    ):
        if most is not None and wanted > most:
            raise Exhausted(
                "PROJECT_LIMIT" if whose == "The project" else "KEY_LIMIT",
                f"{whose} may have {most} {what}, and would have {wanted} ({name})",
                "Delete some, or raise the limit on the host with 'ramet project limits'.",
            )
