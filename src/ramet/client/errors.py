"""What goes wrong between a client and a server, beside what the server itself says."""

from ramet.errors import Error


class ApiError(Error):
    """The server refused a request: `status` is that of HTTP, the rest is its own words."""

    def __init__(self, status: int, code: str, message: str, details: str = "") -> None:
        super().__init__(code, message, details)
        self.status = status


class TimedOut(Error):
    """Something took longer than the caller wanted to wait. It goes on all the same."""


class WaitFailed(Error):
    """A service went another way than the one that was waited for."""
