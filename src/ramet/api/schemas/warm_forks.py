"""The schemas of the pool of warm forks that a service keeps."""

from typing import Annotated

from msgspec import Meta, Struct

from ramet.api.schemas.shared import Body, Timestamp
from ramet.model.warm_forks import DEFAULT_AGE_SECONDS, LEAST_AGE_SECONDS, MOST_AGE_SECONDS, MOST_FORKS

Size = Annotated[
    int,
    Meta(
        description=f"An integer, how many forks from 0 to {MOST_FORKS}; 0: none, however often it is forked.",
        extra_json_schema={"minimum": 0, "maximum": MOST_FORKS},
    ),
]
MaxAge = Annotated[
    int,
    Meta(
        description=f"No fork of an older state is given: an integer, seconds from {LEAST_AGE_SECONDS} to"
        f" {MOST_AGE_SECONDS}; {DEFAULT_AGE_SECONDS} by default."
    ),
]


class WarmForksInput(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many forks a service keeps ready, and how old their state may become."""

    size: Size
    max_age_seconds: MaxAge | None = None


class WarmForks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The forks that a service keeps ready. Size 0: it keeps none."""

    size: int
    max_age_seconds: Annotated[int | None, Meta(description="Absent if the service keeps none.")] = None
    automatic: Annotated[
        bool, Meta(description="True where nobody chose a size: some are kept while the service is forked often.")
    ] = False
    ready: Annotated[int, Meta(description="How many can be claimed, if they fit a request.")]
    being_made: int
    oldest_state: Annotated[
        Timestamp | None, Meta(description="All that was committed before is in each that is ready; absent if none is.")
    ] = None
