"""What refuses a source that a standby should follow."""

import pytest

from ramet.backends.interface.followers import HostFacts, UpstreamFacts
from ramet.followers.report import judge
from ramet.imports.findings import Effect


@pytest.mark.parametrize(("origins", "refused"), [(100, []), (101, ["replication origins"])])
def test_a_source_with_more_origins_than_a_standby_can_have_is_refused(origins: int, refused: list[str]) -> None:
    facts = UpstreamFacts("18.1", 18, "x86_64", "7000000000000000000", "postgres", 1, {}, origins=origins)
    found = judge(facts, HostFacts((18,), "x86_64", 2**40), slot=None)
    assert [one.subject for one in found if one.effect is Effect.REFUSED] == refused
