"""The schema of how far behind its source a service is."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from ramet.model.upstream import FollowMethod


class ServiceFollowing(Struct, frozen=True, gc=False, omit_defaults=True):
    """How far behind its source a service is. What is not known is absent."""

    source: Annotated[str, Meta(description="user@host:port/database.")]
    method: FollowMethod
    observed_at: Annotated[datetime, Meta(tz=True)] | None = None
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    complete_until: (
        Annotated[datetime, Meta(tz=True, description="By the source's clock: what was committed before this is here.")]
        | None
    ) = None
    replayed_lsn: Annotated[str, Meta(description="Everything of the source until this LSN is here.")] | None = None
    problem: (
        Annotated[str, Meta(description="Why nothing arrives now, or nobody can log in, and what to do.")] | None
    ) = None
