"""The errors of the client."""

from ramet.errors import Error

UNKNOWN_ANSWER = "UNKNOWN_ANSWER"  # the code of what Ramet does not send: a page of a proxy, for example
UNKNOWN_PARAMETER = "UNKNOWN_PARAMETER"  # the code with which an earlier release refuses what it does not know


class ApiError(Error):
    """The server refused a request: `status` is that of HTTP, the rest is the server's error."""

    def __init__(self, status: int, code: str, message: str, details: str = "") -> None:
        super().__init__(code, message, details)
        self.status = status


class TimedOut(Error):
    """Something took longer than the time limit. The operation continues on the server."""


class WaitFailed(Error):
    """A service reached another status than the awaited one."""


def is_absence(error: Error) -> bool:
    """Tell whether Ramet says that it has no such service. A proxy also answers 404, while Ramet restarts behind it."""
    return isinstance(error, ApiError) and (error.status, error.code) == (404, "SERVICE_NOT_FOUND")


def is_of_proxy(error: ApiError) -> bool:
    """Tell whether a 404 is not of Ramet: it says nothing about what was asked for."""
    return (error.status, error.code) == (404, UNKNOWN_ANSWER)


def is_lost(error: Error) -> bool:
    """Tell whether the server may have accepted a request whose answer did not arrive."""
    if isinstance(error, ApiError):  # a proxy answers so when the server behind it does not
        return error.code == UNKNOWN_ANSWER and error.status in (502, 504)
    return may_have_arrived(error.__cause__)


def may_have_arrived(failure: BaseException | None) -> bool:
    """Tell whether a request that has failed like this on the network may have reached the server all the same."""
    return isinstance(failure, TimeoutError | ConnectionError) and not isinstance(failure, ConnectionRefusedError)
