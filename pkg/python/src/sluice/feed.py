"""Feeds over server-sent events, on as many connections as it takes."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .http import Frame, SluiceError, error_of, exchange, lowered, no_response

SILENCE = 90.0  # seconds; a server sends something every 15
SOONEST = 0.1
LATEST = 5.0


def follow(
    address: Callable[[Mapping[str, Any]], str],
    headers: Mapping[str, str],
    query: Mapping[str, Any],
    retries: int,
    context: ssl.SSLContext | None,
    on_away: Callable[[SluiceError], None] | None,
) -> Iterator[Frame[Any]]:
    """Yields the frames of a feed, each once.

    A lost connection is opened again behind the last frame; the first one is tried as often as other
    calls. It raises what the server refuses.
    """
    query = dict(query)
    place: str | None = query.get("since")
    connected = False
    wait, tries = SOONEST, 0
    while True:
        away = SluiceError("unavailable", "the feed was interrupted")
        try:
            for event_id, text in connection(address(query), headers, place, context):
                place = event_id or place
                if not text:
                    continue
                data = json.loads(text)
                if "error" in data:
                    raise SluiceError(data["error"]["code"], data["error"]["message"], 0, data["error"].get("details"))
                if data.get("subscribed"):
                    connected, wait = True, SOONEST
                    if data.get("incarnation"):
                        query["incarnation"] = data["incarnation"]  # of the log that the place is of
                yield Frame(place or "", data)
        except SluiceError as problem:
            away = problem
        may_return = away.code == "unavailable" or (away.code == "quota_exceeded" and connected)
        if not may_return or (not connected and tries >= retries):
            raise away
        if on_away is not None:
            on_away(away)
        time.sleep(wait * random.uniform(0.75, 1.25))
        wait, tries = min(2 * wait, LATEST), tries + 1


def connection(url: str, headers: Mapping[str, str], place: str | None, context: ssl.SSLContext | None) -> Iterator[tuple[str, str]]:
    """Reads one connection to its end: ids and texts. A comment or a heartbeat has an id, and no text."""
    sent = {"accept": "text/event-stream", **headers}
    if place is not None:
        sent["last-event-id"] = place
    with exchange("GET", url, sent, None, SILENCE, context) as response:
        if response.status != 200:
            with no_response(url):
                body = response.read()
            raise error_of(response.status, lowered(response), body)
        event_id = text = ""
        for line in lines(url, response):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                event_id = value
            elif name == "data":
                text += value
            elif line == "":
                yield event_id, text
                text = ""


def lines(url: str, response: http.client.HTTPResponse) -> Iterator[str]:
    """Yields the whole lines of a response; the rest of a line that was cut off is dropped."""
    while True:
        with no_response(url):
            line = response.readline()
        if not line.endswith(b"\n"):
            return
        yield line.decode().rstrip("\r\n")
