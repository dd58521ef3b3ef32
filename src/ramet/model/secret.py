"""A type for secrets, which does not print. What makes passwords and verifies them is in `passwords`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Secret:
    """A text that must reach no log, error or listing. `reveal()` is the only way to it."""

    _text: str

    def __repr__(self) -> str:
        return "Secret('***')"

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text
