"""What was asked for on the command line."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """How a bench runs. Zero and empty mean: what the bench itself takes."""

    data: Path
    quick: bool = False
    repeats: int = 0
    sizes: tuple[int, ...] = ()
    drivers: tuple[str, ...] = ()
    most: int = 0
