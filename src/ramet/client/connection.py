"""One project through one API key: sending requests, reading answers, and turning refusals into errors."""

import os
import re
from binascii import b2a_base64
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from ramet.api.schemas.shared import ErrorBody
from ramet.client.errors import UNKNOWN_PARAMETER, ApiError, TimedOut, is_lost, may_have_arrived
from ramet.client.http_connection import Answer
from ramet.client.polling import poll
from ramet.client.transport import HttpTransport, Transport, checked_address
from ramet.errors import Error, Invalid, Unavailable
from ramet.model.secret import Secret

_LONGEST_WAIT_SECONDS = 20
_REPEATED_WITHIN_SECONDS = 10.0
_READING = ("?dry_run=true", "/metrics/series")  # how the paths end of what changes nothing, although it is no GET
_MAY_HAVE_TAKEN_EFFECT = "The request may have taken effect: check that before you send it again."
_MAY_BE_ROTATED = (
    "There may be another secret, which nobody has: then previous_secret_until in the list says how long the one before"
    " is valid. To rotate it again ends that one at once."
)
_NEXT = r'<([^>]*)>; *rel="?next'
_Answer = TypeVar("_Answer")
_learning = Lock()  # a type is learnt by one thread at a time: see ramet.decoded_types


class Connection:
    """What all parts of the client share."""

    def __init__(
        self,
        base_url: str,
        project_id: str,
        public_key: str,
        secret_key: str | Secret,
        *,
        ca: str = "",
        timeout_seconds: float = 30.0,
        transport: Transport | None = None,
    ) -> None:
        """`base_url` ends in /public/api/v1; raises Invalid when it is not a URL.

        `ca` is the authority to verify the server with, as PEM ('ramet ca' prints it); by default those that browsers
        know. Tests pass a `transport` that replaces the network.
        """
        secret = revealed(secret_key)
        self.base_url = checked_address(base_url)
        self.project_id = project_id
        self.ca = ca
        self.longest_wait_seconds = min(_LONGEST_WAIT_SECONDS, int(timeout_seconds / 2))
        self._authorization = "Basic " + b2a_base64(f"{public_key}:{secret}".encode(), newline=False).decode()
        self._transport = transport or HttpTransport(self.base_url, timeout_seconds, ca)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def path(self, *parts: str) -> str:
        """Return the path of the project's services, or of one, or of a part of one. Raises Invalid."""
        return self.project_path("services", *parts)

    def project_path(self, *parts: str) -> str:
        """Return the path of a part of the project. Raises Invalid where a part would lead elsewhere."""
        if any(part in ("", ".", "..") for part in (self.project_id, *parts)):
            raise Invalid("BAD_ID", "An id must not be empty or dots", "See list_services() for ids.")
        return "/".join(("/projects", *(quote(part, safe="") for part in (self.project_id, *parts))))

    def call(
        self,
        method: str,
        path: str,
        shape: type[_Answer],
        body: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
        wait_seconds: int = 0,
    ) -> _Answer:
        """Send a request, and return its answer in this shape; it may wait for `wait_seconds` if the server can.

        Raises ApiError for a refusal, TimedOut, and Unavailable when no server answers.
        """
        return self._decoded(self._answer(method, path, body, idempotency_key, wait_seconds), shape)

    def make(
        self,
        path: str,
        shape: type[_Answer],
        body: Mapping[str, object],
        idempotency_key: str | None = None,
        seen_by: str = "service list",
        remedy: str | None = None,
    ) -> _Answer:
        """Send a request that must not be carried out twice, and repeat it where its answer is lost.

        A random key leads the repetition to what the first request has made. A caller with an `idempotency_key` repeats
        the request itself. Where no answer comes, the error names the command `seen_by`, or has another `remedy`.
        Raises as `call` does.
        """
        remedy = remedy or f"The request may have been accepted: see 'ramet {seen_by}' before you send it again."
        key = os.urandom(16).hex() if idempotency_key is None else idempotency_key
        try:
            return self.call("POST", path, shape, body, key)
        except Error as error:
            if idempotency_key is not None or not is_lost(error):
                raise
            late = TimedOut("TIMED_OUT", error.message, remedy)
        try:
            return poll(lambda: self.call("POST", path, shape, body, key), _REPEATED_WITHIN_SECONDS, lambda: late)
        except (TimedOut, Unavailable) as error:
            raise TimedOut("TIMED_OUT", error.message, remedy) from error
        except ApiError as error:
            if error.code == UNKNOWN_PARAMETER:  # an earlier release, whatever had the first request
                raise late from error
            if error.status == 401:  # the first request may have ended what opens the project
                raise ApiError(error.status, error.code, error.message, f"{error.details} {remedy}") from error
            raise

    def rotate(self, path: str, shape: type[_Answer], body: Mapping[str, object]) -> _Answer:
        """Request another secret, which is in the answer only, and repeat that where the answer is lost.

        An earlier release knows no `Idempotency-Key` here, and a repetition would void the secret in use: it refuses
        the parameter, and gets the request once more without it, and only once. Raises as `call` does.
        """
        try:
            return self.make(f"{path}?repeatable=true", shape, body, remedy=_MAY_BE_ROTATED)
        except ApiError as error:
            if error.code != UNKNOWN_PARAMETER:
                raise
        try:
            return self.call("POST", path, shape, body)
        except Error as error:
            if not is_lost(error):
                raise
            raise TimedOut("TIMED_OUT", error.message, _MAY_BE_ROTATED) from error

    def pages(self, path: str, shape: type[_Answer]) -> Iterator[_Answer]:
        """Yield page after page of a list, as long as a `Link` leads to the next one. Raises as `call` does."""
        following: str | None = path
        while following is not None:
            answer = self._answer("GET", following)
            yield self._decoded(answer, shape)
            found = re.search(_NEXT, answer.headers.get("link", ""))
            following = None if found is None else f"{path.partition('?')[0]}?{urlsplit(found[1]).query}"

    def _decoded(self, answer: Answer, shape: type[_Answer]) -> _Answer:
        try:
            return _decoder(shape).decode(answer.content)
        except msgspec.DecodeError as error:
            raise ApiError(
                answer.status, "UNKNOWN_ANSWER", f"{self.base_url} sent an unexpected response", str(error)
            ) from error

    def send(self, method: str, path: str, body: Mapping[str, object] | None = None) -> None:
        """Send a request whose answer has nothing to read. Raises as `call` does."""
        answer = self._answer(method, path, body)
        if answer.content:
            self._decoded(answer, msgspec.Raw)  # a page of a proxy is no answer

    def _answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
        wait_seconds: int = 0,
    ) -> Answer:
        content = None if body is None else msgspec.json.encode(body)
        headers = self._headers(body, idempotency_key)
        if wait_seconds > 0:
            headers["Prefer"] = f"wait={min(wait_seconds, self.longest_wait_seconds)}"
        may_repeat = method == "GET" or path.endswith(_READING) or idempotency_key is not None
        try:
            answer = self._transport.request(method, path, content, headers)
        except TimeoutError as error:
            remedy = "Try again." if may_repeat else _MAY_HAVE_TAKEN_EFFECT
            raise TimedOut("TIMED_OUT", f"{self.base_url} did not answer in time", remedy) from error
        except OSError as error:
            remedy = _remedy(error) if may_repeat or not may_have_arrived(error) else _MAY_HAVE_TAKEN_EFFECT
            raise Unavailable(
                "SERVER_UNREACHABLE", f"No Ramet answers at {self.base_url}", f"{remedy} ({error})"
            ) from error
        if not 200 <= answer.status < 300:
            raise _refusal(answer)
        return answer

    def _headers(self, body: object, idempotency_key: str | None) -> dict[str, str]:
        headers = {"Authorization": self._authorization}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if idempotency_key is not None:
            if not (idempotency_key.isascii() and idempotency_key.isprintable()):
                message = f"The idempotency key {idempotency_key!r} has characters that no header can have"
                raise Invalid("BAD_IDEMPOTENCY_KEY", message, "Use letters, digits and punctuation of ASCII.")
            headers["Idempotency-Key"] = idempotency_key
        return headers


def _decoder(shape: type[_Answer]) -> msgspec.json.Decoder[_Answer]:
    with _learning:
        hashable: Any = shape
        decoder: msgspec.json.Decoder[_Answer] = _new_decoder(hashable)
        return decoder


@cache
def _new_decoder(shape: Any) -> Any:
    return msgspec.json.Decoder(shape)


def _remedy(error: Exception) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "Its certificate is of another authority: save that of 'ramet ca' with 'ramet config set ca FILE'."
    return "Start one with 'ramet up', or check RAMET_BASE_URL."


def _refusal(answer: Answer) -> ApiError:
    try:
        body = _decoder(ErrorBody).decode(answer.content)
    except msgspec.DecodeError:
        location = answer.headers.get("location", "")[:200]
        is_page = "html" in answer.headers.get("content-type", "")
        content = "It looks like a page for browsers: check the address." if is_page else answer.text[:200].strip()
        details = f"It redirects to {location}: correct RAMET_BASE_URL." if location else content
        return ApiError(answer.status, "UNKNOWN_ANSWER", f"The server answered {answer.status}", details)
    return ApiError(answer.status, body.code, body.message, body.details)


def query_of(values: Mapping[str, str | Sequence[str]]) -> str:
    """Return the query part of an address."""
    return "?" + urlencode(values, doseq=True) if values else ""


def given(**values: str | int | None) -> dict[str, str | int]:
    """Return what is not None."""
    return {name: value for name, value in values.items() if value is not None}


def revealed(password: Secret | str) -> str:
    """Return the text of a password."""
    return password.reveal() if isinstance(password, Secret) else password


def source_fields(name: str, source_url: str, source_password: Secret | str) -> dict[str, object]:
    """Return the fields of a request for a service that is made of a database elsewhere."""
    return {"name": name, "source_url": source_url, "source_password": revealed(source_password)}
