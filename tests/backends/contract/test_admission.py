"""What every backend says of how many more servers there can be."""

from tests.backends.contract.grounds import Ground


def test_each_bound_is_positive_and_says_what_it_counts_and_how_to_have_more(ground: Ground) -> None:
    capacity = ground.backend.admission.capacity()
    for bound in capacity.bounds:
        assert min(bound.most, bound.each) > 0
        assert bound.used >= 0
        assert all((bound.name, bound.unit, bound.source, bound.remedy.endswith(".")))
    assert capacity.committed_mbs is None or capacity.committed_mbs > 0
