"""The report on a source that a subscription would follow, as a pure function."""

from dataclasses import replace

import pytest

from ramet.backends.interface.subscriptions import PublisherFacts
from ramet.imports.findings import Effect, refusals
from ramet.imports.publisher_report import judge_publisher

GOOD = PublisherFacts(
    major=15, wal_level="logical", is_standby=False, may_replicate=True, may_publish=True, free_slots=1, free_senders=1,
    sequence_count=2, large_object_count=0,
)  # fmt: skip


def test_a_good_source_is_followed_and_sequences_and_the_schema_are_noted() -> None:
    found = judge_publisher(GOOD, 18)
    assert [(one.effect, one.subject) for one in found] == [(Effect.NOTED, "sequences"), (Effect.NOTED, "schema")]


@pytest.mark.parametrize(
    ("changes", "pg_major", "words"),
    [
        ({}, 15, "needs 16 or later"),
        ({"is_standby": True}, 18, "it is a standby"),
        ({"wal_level": "replica"}, 18, "wal_level is replica"),
        ({"may_replicate": False}, 18, "may not replicate"),
        ({"may_publish": False}, 18, "may not create publications"),
        ({"not_owned": ("public.a", "public.b")}, 18, "does not own public.a, public.b"),
        ({"free_slots": 0}, 18, "none is free"),
        ({"free_senders": -1}, 18, "none is free"),
        ({"without_identity": tuple(f"t{n}" for n in range(10))}, 18, "t7 and 2 more have no replica identity"),
    ],
)
def test_what_cannot_work_is_refused_with_a_remedy(changes: dict[str, object], pg_major: int, words: str) -> None:
    (refusal,) = refusals(judge_publisher(replace(GOOD, **changes), pg_major))  # type: ignore[arg-type]
    assert words in refusal.message
    assert refusal.remedy


def test_what_is_not_replicated_is_named() -> None:
    facts = replace(GOOD, unlogged=("public.cache",), materialized_views=("public.totals",), large_object_count=3)
    found = [one for one in judge_publisher(facts, 18) if one.effect is Effect.CHANGED]
    assert [one.subject for one in found] == ["unlogged tables", "materialized views", "large objects"]
    assert "public.totals have no rows" in found[1].message
