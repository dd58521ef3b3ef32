"""How much text an answer to an agent has: long texts are cut, and a list ends where there is no space left."""

from collections.abc import Mapping
from typing import Any

Answer = dict[str, Any]
MOST_CHARACTERS = 200_000
_MOST_OF_TEXT = 10_000


class Space:
    """The characters that are left of an answer; `is_exceeded` tells whether more than these were asked for."""

    def __init__(self) -> None:
        self._left = MOST_CHARACTERS
        self.is_exceeded = False

    @property
    def is_used_up(self) -> bool:
        """Tell whether nothing is left."""
        return self._left <= 0

    def cut(self, text: str) -> str:
        """Return a text, or as much of its beginning as there is space for, and its length."""
        most = min(_MOST_OF_TEXT, max(0, self._left))
        self._left -= min(len(text), most)
        return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"

    def fit(self, value: Any) -> Any:
        """Return what is to become JSON with its texts cut, and its lists up to where the space ends."""
        if isinstance(value, str):
            return self.cut(value)
        if isinstance(value, Mapping):
            self._left -= sum(len(name) for name in value)
            return {name: self.fit(one) for name, one in value.items()}
        if isinstance(value, list):
            return self._fit_all(value)
        self._left -= len(str(value))
        return value

    def _fit_all(self, values: list[Any]) -> list[Any]:
        found = []
        for one in values:
            if self.is_used_up:
                self.is_exceeded = True
                break
            found.append(self.fit(one))
        return found


def within_limits(answer: Answer, remedy: str) -> Answer:
    """Return an answer as `Space.fit` does, with what was left out and what to do then."""
    space = Space()
    found: Answer = space.fit(answer)
    if space.is_exceeded:
        found["truncated"] = f"There is more than the {MOST_CHARACTERS:,} characters that an answer has: {remedy}"
    return found
