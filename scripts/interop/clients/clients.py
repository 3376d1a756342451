"""Does with the client in Python what clients.test.mjs asks for, and prints what comes of it as JSON, one object a line.

clients.py calls|one|feed|worker URL TOKEN [ARGUMENT]
"""

import json
import re
import sys
import threading
from pathlib import Path
from typing import Any

root = Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
sys.path.insert(0, str(root / "pkg/python/src"))

from sluice import Response, Sluice, SluiceError  # noqa: E402
from sluice.worker import Batch, Worker  # noqa: E402


def tell(what: Any) -> None:
    print(json.dumps(what), flush=True)


def filled(value: Any, known: dict[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"\$(\w+)", lambda found: known[found[1]], value)
    if isinstance(value, list):
        return [filled(one, known) for one in value]
    if isinstance(value, dict):
        return {name: filled(one, known) for name, one in value.items()}
    return value


def one_call(sluice: Sluice, name: str, args: dict[str, Any]) -> Any:
    method = getattr(sluice, re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower())
    try:
        result = method(**args)
    except SluiceError as problem:
        return {"error": {"code": problem.code, "status": problem.status, "details": dict(problem.details), "request_id": problem.request_id}}
    if isinstance(result, Response):
        return {"result": {"status": result.status, "headers": dict(result.headers), "text": result.body.decode()}}
    return {"result": result}


def calls(sluice: Sluice, known: str) -> None:
    names: dict[str, str] = json.loads(known)
    for row in json.loads(Path(__file__).with_name("calls.json").read_text()):
        outcome = one_call(sluice, row["call"], filled(row.get("args", {}), names))
        for name, member in row.get("keep", {}).items():
            names[name] = str(outcome["result"][member])
        tell(outcome)


def one(sluice: Sluice, row: str) -> None:
    asked = json.loads(row)
    tell(one_call(sluice, asked["call"], asked["args"]))


def feed(sluice: Sluice, query: str) -> None:
    try:
        for _, data in sluice.feed(**json.loads(query)):
            if "event" in data:
                tell({"n": data["event"]["data"]["n"], "seq": data["seq"]})
            elif "subscribed" in data:
                tell({"live": True})
    except SluiceError as problem:
        tell({"error": problem.code, "status": problem.status})


def worker(sluice: Sluice, secret: str) -> None:
    go_on = threading.Event()

    def handle(batch: Batch) -> None:
        for message in batch.messages or []:
            if message["n"] == "hold" and not go_on.is_set():
                tell({"held": True})
                go_on.wait()
            if message["n"] == "keep":
                tell({"kept": True})
                batch.lost.wait()
                tell({"lost": True})
            if message["n"] == "bad":
                raise ValueError("a bad message")
            tell({"n": message["n"], "epoch": batch.notice["epoch"]})

    server = Worker(sluice, secret, handle, lambda problem, _: tell({"problem": str(problem)}), concurrency=1, heartbeat=0.1).server("127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tell({"port": server.server_port})
    sys.stdin.readline()
    go_on.set()
    sys.stdin.readline()


if __name__ == "__main__":
    what, url, token, *rest = sys.argv[1:]
    lost: list[str] = []

    def away(problem: SluiceError) -> None:
        tell({"away": str(problem)})
        if not lost:
            lost.append(sys.stdin.readline())  # it comes back when the test says so

    client = Sluice(url, token, on_away=away)
    {"calls": calls, "one": one, "feed": feed, "worker": worker}[what](client, *rest)
