"""The one family of errors that Ramet raises on purpose.

Each carries a stable code for programs, a message for a person that names the thing and its value, and optional
details. Clients print `message: details`, and some drop the details: so a message has no full stop at its end, and
what a person has to know is in it. What HTTP status or exit code an error becomes is decided at the edges, not here.
"""


class Error(Exception):
    """A fault that has a name: `code` is UPPER_SNAKE and never changes its meaning."""

    def __init__(self, code: str, message: str, details: str = "") -> None:
        self.code = code
        self.message = message.rstrip().removesuffix(".")
        super().__init__(f"{self.message}: {details}" if details else self.message)
        self.details = details

    def __reduce__(self) -> tuple[type["Error"], tuple[str, str, str]]:
        return type(self), (self.code, self.message, self.details)


class Invalid(Error):
    """The request cannot succeed unchanged: the message names field, value and remedy."""


class WrongState(Error):
    """The request is sound, but the thing is in a state that does not allow it now."""


class Exhausted(Error):
    """The host has no room for it: no free port, not enough disk, over a quota."""


class Unauthorized(Error):
    """No credentials, or credentials that no key matches."""


class Forbidden(Error):
    """The credentials are known and do not allow this."""


class NotFound(Error):
    """No such project, service, snapshot or key."""


class TooLarge(Error):
    """The body is larger than is accepted."""


class Unavailable(Error):
    """A part that is needed cannot be reached now; the same call may succeed later."""


class Unseen(Unavailable):
    """This process could not inspect or copy something, for a reason in this process: that says nothing about it."""


class Failed(Error):
    """Work on the host failed for good: repeating the same step cannot help."""
