"""The size of a service: CPU and memory, or a share of the host.

Parsing and checking of what clients send; what the host enforces belongs to the backends.
"""

from typing import Literal

from msgspec import Struct

from ramet.errors import Invalid

SHARED = "shared"
PUBLIC_SIZES = ((500, 2), (1000, 4), (2000, 8), (4000, 16), (8000, 32), (16000, 64), (32000, 128))


class Size(Struct, frozen=True, gc=False):
    """CPU in thousandths of a core and memory in gigabytes; both None for a shared service."""

    cpu_millis: int | None = None
    memory_gbs: int | None = None

    @property
    def shared(self) -> bool:
        """Whether the service takes its share of the host instead of an amount."""
        return self.cpu_millis is None


def more_than(size: Size, before: Size, times: int = 1) -> Size:
    """Return by how much a size is more than another one, for so many servers; what is less counts as nothing."""
    cpu = max(0, (size.cpu_millis or 0) - (before.cpu_millis or 0))
    memory = max(0, (size.memory_gbs or 0) - (before.memory_gbs or 0))
    return Size(cpu * times, memory * times)


def parse_size(cpu_millis: str | int | None, memory_gbs: str | int | None, inherited: Size, host: Size) -> Size:
    """Return the size asked for, taking what is None from `inherited`.

    `host` bounds it. Raises Invalid with the field, the value and the remedy.
    """
    cpu = inherited.cpu_millis if cpu_millis is None else _amount("cpu_millis", cpu_millis)
    memory = inherited.memory_gbs if memory_gbs is None else _amount("memory_gbs", memory_gbs)
    if (cpu is None) != (memory is None):
        raise Invalid(
            "INVALID_SIZE",
            "cpu_millis and memory_gbs must both be amounts or both be 'shared', but they would be "
            f"{_shown(cpu)!r} and {_shown(memory)!r}",
            'Give both, for example "cpu_millis": "500", "memory_gbs": "2".',
        )
    _check_bound("cpu_millis", cpu, host.cpu_millis)
    _check_bound("memory_gbs", memory, host.memory_gbs)
    return Size(cpu, memory)


# The kernel grants no less than a hundredth of a core.
_LEAST = {"cpu_millis": 10, "memory_gbs": 1}


def _amount(field: Literal["cpu_millis", "memory_gbs"], value: str | int) -> int | None:
    if value == SHARED:
        return None
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= _LEAST[field]):
        raise Invalid(
            "INVALID_SIZE",
            f"{field} must be a whole number from {_LEAST[field]} or 'shared', not {text[:40]!r}",
            f"The usual sizes are {_usual(field)} and 'shared'.",
        )
    return int(text)


def _usual(field: str) -> str:
    index = 0 if field == "cpu_millis" else 1
    return ", ".join(str(size[index]) for size in PUBLIC_SIZES)


def _check_bound(field: str, value: int | None, bound: int | None) -> None:
    if value is not None and bound is not None and value > bound:
        raise Invalid(
            "INVALID_SIZE",
            f"{field} {value} is more than this host has ({bound})",
            f"Ask for at most {bound}, or for 'shared'.",
        )


def _shown(amount: int | None) -> str:
    return SHARED if amount is None else str(amount)
