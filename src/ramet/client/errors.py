"""The errors of the client."""

from ramet.errors import Error


class ApiError(Error):
    """The server refused a request: `status` is that of HTTP, the rest is the server's error."""

    def __init__(self, status: int, code: str, message: str, details: str = "") -> None:
        super().__init__(code, message, details)
        self.status = status


class TimedOut(Error):
    """Something took longer than the time limit. The operation continues on the server."""


class WaitFailed(Error):
    """A service reached another status than the awaited one."""
