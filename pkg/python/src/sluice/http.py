"""Requests, responses and errors, with the standard library alone."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

F = TypeVar("F")


class Frame(NamedTuple, Generic[F]):
    """A frame of a feed, and the place to resume after it: `since` of another feed."""

    id: str
    data: F


class Response(NamedTuple):
    """A response whose headers count. The names of the headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class SluiceError(Exception):
    """What the server refused, or that it did not answer."""

    def __init__(
        self, code: str, message: str, status: int = 0, details: Mapping[str, Any] | None = None, request_id: str = "", refused: bool = False
    ) -> None:
        super().__init__(message)
        self.code = code
        """The code of the server, such as `subscription_not_found`; `unavailable` if no server answered."""
        self.message = message
        self.status = status
        """The status of the response; 0 if there was none."""
        self.details: Mapping[str, Any] = details or {}
        """What the code is about, such as the `field` at fault."""
        self.request_id = request_id
        """The server logs the request under this id."""
        self.refused = refused
        """Nothing listens at the address: the server has not seen the request."""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


CODES = {
    400: "invalid_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    410: "gone",
    412: "revision_mismatch",
    413: "too_large",
    422: "unprocessable",
    429: "quota_exceeded",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> SluiceError:
    """Reads the error of a response. Other bodies, such as a proxy's page, get the code of their status."""
    request_id = headers.get("x-request-id", "")
    try:
        reply = json.loads(body)
        error = reply["error"]
        return SluiceError(error["code"], error["message"], status, error.get("details"), reply.get("request_id", request_id))
    except (ValueError, KeyError, TypeError):
        return SluiceError(CODES.get(status, "internal"), f"the server responded {status}", status, None, request_id)


@contextmanager
def exchange(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float, context: ssl.SSLContext | None = None
) -> Generator[http.client.HTTPResponse, None, None]:
    """Sends one request on a connection of its own. A failure is a SluiceError of code `unavailable`."""
    at = urlsplit(url)
    if at.scheme == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(at.netloc, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(at.netloc, timeout=timeout)
    try:
        with no_response(f"{at.scheme}://{at.netloc}"):
            connection.request(method, at.path + (f"?{at.query}" if at.query else ""), body, dict(headers))
            response = connection.getresponse()
        yield response
    finally:
        connection.close()


@contextmanager
def no_response(server: str) -> Generator[None, None, None]:
    try:
        yield
    except (OSError, http.client.HTTPException) as problem:
        refused = isinstance(problem, ConnectionRefusedError)
        raise SluiceError("unavailable", f"no response from {server}: {problem or type(problem).__name__}", refused=refused) from problem


def lowered(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}
