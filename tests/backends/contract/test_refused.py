"""What a backend is declared to refuse, it refuses: each method says so, with what to do instead."""

import pytest

from ramet.backends.kubernetes.backend import KubernetesBackend
from ramet.errors import Invalid
from tests.backends.contract.grounds import REFUSED
from tests.backends.contract.test_interface import PROTOCOLS, methods
from tests.backends.kubernetes.api_server import in_cluster

# What does nothing or has an answer where the rest is refused, because it is called for every service.
_ANSWERED = {
    "balancer_serves", "detach", "discard", "discard_copy", "keep", "list_open", "majors", "observe", "refuse", "seal",
    "serve", "serves", "sessions", "stop", "waiting",
}  # fmt: skip


@pytest.mark.parametrize("part", sorted({one for one in REFUSED["kubernetes"].values() if "." not in one}))
def test_each_method_of_a_refused_part_says_so(part: str) -> None:
    protocol = next(one for one in PROTOCOLS if one.__name__.lower() == part)
    with in_cluster() as (_, place):
        found = getattr(KubernetesBackend(place), part)
        for name in sorted(set(methods(protocol)) - _ANSWERED):
            with pytest.raises(Invalid) as refused:
                getattr(found, name)()
            assert refused.value.details, name
