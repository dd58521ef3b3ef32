"""Sizes as clients send them."""

import pytest

from ramet.errors import Invalid
from ramet.model.size import Size, parse_size

HOST = Size(8000, 32)
PARENT = Size(1000, 4)


@pytest.mark.parametrize(
    ("cpu", "memory", "size"),
    [
        (None, None, PARENT),
        ("2000", "8", Size(2000, 8)),
        (2000, 8, Size(2000, 8)),
        ("500", None, Size(500, 4)),
        ("shared", "shared", Size()),
        ("8000", "32", HOST),
        ("10", "1", Size(10, 1)),
    ],
)
def test_a_size_is_what_was_sent_or_else_inherited(cpu: str | int | None, memory: str | int | None, size: Size) -> None:
    assert parse_size(cpu, memory, PARENT, HOST) == size


@pytest.mark.parametrize(
    ("cpu", "memory", "field"),
    [
        ("-1", "4", "cpu_millis"),
        ("0", "4", "cpu_millis"),
        ("9", "4", "cpu_millis"),
        (0, 4, "cpu_millis"),
        ("0.5", "4", "cpu_millis"),
        ("1e3", "4", "cpu_millis"),
        ("", "4", "cpu_millis"),
        ("٣", "4", "cpu_millis"),
        ("9" * 40, "4", "cpu_millis"),
        ("500", "four", "memory_gbs"),
        ("500", "shared", "memory_gbs"),
        ("shared", "4", "cpu_millis"),
        ("shared", None, "cpu_millis"),
        ("8001", "32", "cpu_millis"),
        ("8000", "33", "memory_gbs"),
    ],
)
def test_a_bad_size_is_refused_with_its_field(cpu: str | int, memory: str | int | None, field: str) -> None:
    with pytest.raises(Invalid, match=field) as refusal:
        parse_size(cpu, memory, PARENT, HOST)
    assert refusal.value.code == "INVALID_SIZE"
    assert refusal.value.details


@pytest.mark.parametrize(
    ("cpu", "memory", "usual"),
    [("9", "4", "500, 1000, 2000, 4000, 8000, 16000, 32000"), ("500", "0", "2, 4, 8, 16, 32, 64, 128")],
)
def test_a_refused_amount_names_the_usual_ones_of_its_field(cpu: str, memory: str, usual: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_size(cpu, memory, PARENT, HOST)
    assert f"{usual} and 'shared'" in str(refusal.value.details)


def test_a_refused_mixture_shows_what_the_size_would_be() -> None:
    with pytest.raises(Invalid, match="'shared' and '4'"):
        parse_size("shared", None, PARENT, HOST)
