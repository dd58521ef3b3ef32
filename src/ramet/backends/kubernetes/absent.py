"""What only the local backend offers: each method of such a part is refused when it is called."""

from collections.abc import Callable
from typing import Any, NoReturn

from ramet.errors import Invalid


def refuse(what: str) -> NoReturn:
    """Raise Invalid for what this backend lacks."""
    raise Invalid(
        "NOT_ON_KUBERNETES",
        f"The backend for Kubernetes has no {what}",
        "Use a Ramet with the local backend for that.",
    )


def absent(what: str, **answers: object) -> Any:
    """Return a part for any protocol: its methods refuse `what`, but for those that have an answer here.

    An answer that is a function is called.
    """
    return _Absent(what, answers)


class _Absent:
    def __init__(self, what: str, answers: dict[str, object]) -> None:
        self._what, self._answers = what, answers

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name.startswith("_"):
            raise AttributeError(name)

        def method(*given: object, **named: object) -> object:
            if name not in self._answers:
                refuse(self._what)
            answer = self._answers[name]
            return answer(*given, **named) if callable(answer) else answer

        return method
