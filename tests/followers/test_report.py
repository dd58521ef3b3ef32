"""What refuses a source that a standby should follow."""

from dataclasses import replace
from typing import Any

import pytest

from ramet.backends.interface.followers import HostFacts, UpstreamFacts
from ramet.followers.report import judge
from ramet.imports.findings import Effect

_FACTS = UpstreamFacts("18.1", 18, "x86_64", "7000000000000000000", "postgres", 1, {})


def _refused(facts: UpstreamFacts) -> list[str]:
    found = judge(facts, HostFacts((18,), "x86_64", 2**40), slot=None)
    return [one.subject for one in found if one.effect is Effect.REFUSED]


@pytest.mark.parametrize(("origins", "refused"), [(100, []), (101, ["replication origins"])])
def test_a_source_with_more_origins_than_a_standby_can_have_is_refused(origins: int, refused: list[str]) -> None:
    assert _refused(replace(_FACTS, origins=origins)) == refused


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"can_enter": False}, ["roles"]),
        ({"bootstrap_role": "jürgen", "encoding": "LATIN1"}, ["roles"]),
        ({"bootstrap_role": "jürgen", "encoding": "UTF8"}, []),
        ({"bootstrap_role": "jürgen", "encoding": "SQL_ASCII"}, []),
        ({"encoding": "LATIN1"}, []),
        ({"bootstrap_role": "a\nb"}, ["roles"]),
        ({"bootstrap_role": "/a"}, ["roles"]),
    ],
)
def test_a_source_as_whose_superuser_its_copy_could_not_be_entered_is_refused(
    fields: dict[str, Any], refused: list[str]
) -> None:
    assert _refused(replace(_FACTS, **fields)) == refused


@pytest.mark.parametrize(("databases", "refused"), [(("shop", "postgres"), []), (("shop",), ["databases"])])
def test_a_source_whose_copy_could_not_be_entered_is_refused(databases: tuple[str, ...], refused: list[str]) -> None:
    assert _refused(replace(_FACTS, databases=databases)) == refused
