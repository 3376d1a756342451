"""Works for a subscription of mode `wake`."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypedDict
from urllib.parse import unquote

from .client import Sluice, pause
from .http import SluiceError, exchange, no_response
from .webhook import SignatureError, check_secrets, verify

LEASE = 45.0  # seconds; the server wakes another worker after this time without a callback
LARGEST = 4 << 20  # bytes of a notice


class StreamOffset(TypedDict):
    path: str
    offset: str


class Notice(TypedDict):
    """What a worker is told: which streams have news, and where it stopped reading them."""

    consumer_id: str
    epoch: int
    wake_id: str
    primary_stream: str
    streams: list[StreamOffset]
    triggered_by: list[str]
    callback: str
    token: str


@dataclass(frozen=True)
class Batch:
    """News of one stream."""

    notice: Notice
    path: str
    messages: list[Any] | None
    """The messages of a stream of JSON; None for another content type."""
    body: bytes
    """What was read, as it is."""
    lost: threading.Event
    """Is set when the wake is over: another worker has the work."""


class Worker:
    """Verifies notices, claims, reads, acknowledges, and keeps the claim while `handle` runs."""

    def __init__(
        self,
        sluice: Sluice,
        secret: str | Sequence[str],
        handle: Callable[[Batch], None],
        on_error: Callable[[Exception, Notice], None] | None = None,
        *,
        concurrency: int = 100,
        heartbeat: float = 15.0,
    ) -> None:
        """Starts nothing. Raises ValueError for an empty secret.

        sluice: reads the streams; its token needs `read`
        secret: the secret of the subscription; several during a rotation
        handle: processes news. When it returns, they are acknowledged; when it raises, they come again
        on_error: is told what handle raised, or why reading or acknowledging failed
        concurrency: how many wakes are worked on at once; further notices are answered with 503, and come again
        heartbeat: seconds between reports that keep the claim while handle runs; the server wakes another worker after three times the default
        """
        self._sluice = sluice
        self._secrets = [secret] if isinstance(secret, str) else list(secret)
        check_secrets(self._secrets)
        self._handle = handle
        self._on_error = on_error
        self._concurrency = concurrency
        self._heartbeat = heartbeat
        self._running: dict[str, threading.Thread] = {}
        self._mutex = threading.Lock()

    def receive(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Takes a request and returns the status to answer with: 202, and the work has begun; 401, or 503."""
        try:
            verify(body, headers, self._secrets, scheme="t-sha256")
        except SignatureError:
            return 401
        notice: Notice = json.loads(body)
        with self._mutex:
            if notice["wake_id"] in self._running:
                return 202
            if len(self._running) >= self._concurrency:
                return 503
            thread = threading.Thread(target=self._run, args=(notice,), name=f"wake {notice['wake_id']}")
            self._running[notice["wake_id"]] = thread
            thread.start()
        return 202

    def server(self, host: str, port: int) -> ThreadingHTTPServer:
        """Returns a server of the standard library for the notices: call its serve_forever()."""
        worker = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                body = self.rfile.read(min(length, LARGEST))
                self.send_response(worker.receive(body, dict(self.headers.items())) if length <= LARGEST else 413)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return ThreadingHTTPServer((host, port), Handler)

    def join(self) -> None:
        """Waits until the work that has begun is done."""
        while True:
            with self._mutex:
                threads = list(self._running.values())
            if not threads:
                return
            for thread in threads:
                thread.join()

    def _run(self, notice: Notice) -> None:
        try:
            claim = Claim(notice)
            for stream in claim.report({"wake_id": notice["wake_id"]})["streams"]:
                self._read(claim, stream["path"], stream["offset"])
            claim.report({"done": True})
        except Exception as problem:
            if not is_over(problem) and self._on_error is not None:
                self._on_error(problem, notice)
        finally:
            with self._mutex:
                del self._running[notice["wake_id"]]

    def _read(self, claim: Claim, path: str, offset: str) -> None:
        """Reads a stream to its end. Each page is acknowledged when it is processed."""
        found = re.search(r"/callback/([^/]+)/", claim.notice["callback"])
        namespace = unquote(found[1]) if found else ""
        while True:
            page = self._sluice.read_stream(namespace, path, offset=offset)
            after = page.headers.get("stream-next-offset", offset)
            if after == offset:
                return
            is_json = page.headers.get("content-type", "").startswith("application/json")
            with claim.kept(self._heartbeat) as lost:
                self._handle(Batch(claim.notice, path, page.json() if is_json else None, page.body, lost))
            claim.report({"acks": [{"path": path, "offset": after}]})
            offset = after
            if "stream-up-to-date" in page.headers:
                return


class Claim:
    """The claim of a wake: its callbacks, with the token that is current."""

    def __init__(self, notice: Notice) -> None:
        self.notice = notice
        self._token = notice["token"]

    def report(self, body: Mapping[str, Any]) -> Any:
        """Reports until the server has answered, for as long as the claim can last."""
        end, wait = time.monotonic() + LEASE, 0.1
        while True:
            status, reply = self._send(body)
            self._token = reply.get("token") or self._token
            if reply.get("ok"):
                return reply
            error = reply.get("error") or {"code": "internal", "message": f"the server responded {status}"}
            again = status in (0, 502, 503, 504) or (error["code"] == "TOKEN_EXPIRED" and "token" in reply)
            if not again or time.monotonic() > end:
                raise SluiceError(error["code"], error["message"], status)
            pause(wait)
            wait = min(2 * wait, 2.0)

    def _send(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        content = json.dumps({"epoch": self.notice["epoch"], **body}).encode()
        try:
            with exchange("POST", self.notice["callback"], headers, content, LEASE) as response:
                with no_response(self.notice["callback"]):
                    return response.status, json.loads(response.read())
        except SluiceError as problem:
            return 0, {"error": {"code": problem.code, "message": problem.message}}
        except ValueError:
            return 502, {}

    @contextmanager
    def kept(self, heartbeat: float) -> Generator[threading.Event, None, None]:
        """Keeps the claim while something runs. The event says that it is lost."""
        lost, over = threading.Event(), threading.Event()

        def beat() -> None:
            while not over.wait(heartbeat):
                try:
                    self.report({})
                except SluiceError:
                    lost.set()
                    return

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield lost
        finally:
            over.set()
            thread.join()


def is_over(problem: Exception) -> bool:
    """Says whether a claim is over without a fault of the worker."""
    return isinstance(problem, SluiceError) and problem.code in ("STALE_EPOCH", "ALREADY_CLAIMED", "CONSUMER_GONE")
