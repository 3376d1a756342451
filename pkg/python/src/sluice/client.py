from __future__ import annotations

import json
import random
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from .feed import follow
from .http import Frame, Response, SluiceError, error_of, exchange, lowered, no_response
from .operations import Operations


class Sluice(Operations):
    """A client of one server. Its methods are the operations of the API.

    They return what the server responded, and raise SluiceError. A client may be used by several
    threads.

    Calls are repeated while no server answers, or it answers 503: all but POST, and those with an
    `idempotency_key` or a `producer_id`. A refused connection is always tried again.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        timeout: float = 60,
        retries: int = 4,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        on_away: Callable[[SluiceError], None] | None = None,
    ) -> None:
        """Makes no request.

        url: the address of the server, such as "http://127.0.0.1:8080"
        token: the root token, or that of a grant
        timeout: seconds until a call without a response fails
        retries: how often a call is repeated while the server cannot be reached or answers 503
        headers: further headers of every request, such as the "ce-…" of an event in binary mode
        on_away: is told when a feed has lost its connection, which is about to be opened again
        """
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._retries = retries
        self._context = context
        self._on_away = on_away
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._headers.update({name.lower(): value for name, value in (headers or {}).items()})

    def _call(
        self, method: str, path: str, names: Mapping[str, str], query: Mapping[str, Any], headers: Mapping[str, Any], body: Any = None
    ) -> Any:
        response = self._whole(method, path, names, query, headers, body)
        return json.loads(response.body) if response.body else None

    def _whole(
        self, method: str, path: str, names: Mapping[str, str], query: Mapping[str, Any], headers: Mapping[str, Any], body: Any = None
    ) -> Response:
        url = self._address(path, names, query)
        sent = self._headers | {name.lower(): str(value) for name, value in headers.items() if value is not None}
        payload, sent = packed(body, sent)
        repeatable = method != "POST" or "idempotency-key" in sent or "producer-id" in sent
        attempt = 0
        while True:
            try:
                return self._try(method, url, sent, payload)
            except SluiceError as problem:
                again = problem.refused or (repeatable and problem.status in (0, 503))
                if attempt >= self._retries or not again:
                    raise
            pause(0.1 * 2**attempt)
            attempt += 1

    def _try(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        with exchange(method, url, headers, body, self._timeout, self._context) as answer:
            with no_response(self.url):
                response = Response(answer.status, lowered(answer), answer.read())
        if not 200 <= response.status < 300:
            raise error_of(response.status, response.headers, response.body)
        return response

    def _frames(self, path: str, names: Mapping[str, str], query: Mapping[str, Any]) -> Iterator[Frame[Any]]:
        return follow(lambda more: self._address(path, names, more), self._headers, query, self._retries, self._context, self._on_away)

    def _address(self, path: str, names: Mapping[str, str], query: Mapping[str, Any]) -> str:
        filled = re.sub(r"\{(\w+)\}", lambda found: in_path(found[1], names[found[1]]), path)
        values = {name: in_query(value) for name, value in query.items() if value is not None}
        return self.url + filled + ("?" + urlencode(values, doseq=True) if values else "")


def packed(body: Any, headers: Mapping[str, str]) -> tuple[bytes | None, dict[str, str]]:
    """Returns a body in bytes, with its headers. Bytes and text are sent as they are, everything else as JSON."""
    if body is None:
        return None, dict(headers)
    if isinstance(body, str):
        return body.encode(), dict(headers)
    if isinstance(body, bytes):
        return body, dict(headers)
    return json.dumps(body, ensure_ascii=False).encode(), {"content-type": "application/json"} | dict(headers)


def in_path(name: str, value: str) -> str:
    """Writes a name as a part of a path. A `path` has parts of its own."""
    parts = value.removeprefix("/").split("/") if name == "path" else [value]
    if "" in parts:
        raise SluiceError("invalid_request", f"{name} is empty; set it", 0, {"field": name})
    return "/".join(quote(part, safe="") for part in parts)


def in_query(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def pause(seconds: float) -> None:
    """Waits, up to a quarter less or more."""
    time.sleep(seconds * random.uniform(0.75, 1.25))
