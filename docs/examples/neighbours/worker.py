#!/usr/bin/env python3
"""A worker for the enrichment of a namespace. It needs Python 3.9 and no packages.

The embedder is a hashing embedder, not a language model: each word and each group of three letters
counts for one of 256 dimensions, chosen by a hash. Texts with common words are similar; texts with the
same meaning in other words are not. It runs anywhere, and always gives the same vector for a text.
Replace embed() by a model of your own, and configure its name and dimensions.

The comparison is as simple: two texts that say the same but for their numbers, or for a "not", are in
friction. Replace compare() likewise.

    SLUICE_URL=http://127.0.0.1:8080 SLUICE_TOKEN=cap_… worker.py --ns NAME [--once]
"""

import argparse
import hashlib
import json
import math
import os
import re
import sys
import urllib.error
import urllib.request

MODEL, DIMENSIONS = "hashing-256", 256
NEGATIONS = {"not", "no", "never", "none"}


def words(text):
    return re.findall(r"\w+", text.lower())


def features(text):
    for word in words(text):
        yield word
        padded = f" {word} "
        yield from (padded[i : i + 3] for i in range(len(padded) - 2))


def embed(text):
    """Returns the vector of a text."""
    vector = [0.0] * DIMENSIONS
    for feature in features(text):
        digest = hashlib.blake2b(feature.encode(), digest_size=8).digest()
        sign = 1 if digest[7] & 1 else -1
        vector[int.from_bytes(digest[:4], "big") % DIMENSIONS] += sign
    return vector


def cosine(a, b):
    length = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b)) / length if length else 0.0


def compare(text, other):
    """Returns the friction of two texts, 0 to 1, and why."""
    def claims(of):
        return {w for w in words(of) if w in NEGATIONS or any(c.isdigit() for c in w)}

    def rest(of):
        return " ".join(w for w in words(of) if w not in claims(of))

    differ = sorted(claims(text) ^ claims(other))
    alike = max(0.0, min(1.0, cosine(embed(rest(text)), embed(rest(other)))))
    return {"friction": round(alike, 4) if differ else 0.0, "differ": differ}


def text_of(item):
    """Returns the text of an entry: all strings and numbers of its data."""
    def leaves(value):
        if isinstance(value, dict):
            for inner in value.values():
                yield from leaves(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from leaves(inner)
        elif value is not None:
            yield str(value)

    return " ".join(leaves(item.get("data")))


class Server:
    def __init__(self, url, token, namespace):
        self.base, self.token = f"{url.rstrip('/')}/v1/namespaces/{namespace}/jobs", token

    def post(self, path, body):
        request = urllib.request.Request(
            f"{self.base}/{path}", json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            data = response.read()
        return json.loads(data) if data else None


def result_of(job):
    text = text_of(job["item"])
    if job["type"] == "compare":
        return {"comparison": compare(text, text_of(job["against_item"]))}
    vector = embed(text)
    if not any(vector):
        raise ValueError("the entry has no words")
    return {"embedding": vector}


def work(server, job):
    """Does a job. A report that comes too late (409) is dropped: another worker has the job."""
    try:
        path, body = "complete", result_of(job)
    except ValueError as error:
        path, body = "fail", {"error": str(error), "final": True}
    try:
        server.post(f"{urllib.request.quote(job['id'], safe='')}/{path}", {"token": job["token"], **body})
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ns", default="default", help="namespace")
    parser.add_argument("--once", action="store_true", help="end when there is no job for 2 seconds")
    args = parser.parse_args()
    server = Server(os.environ["SLUICE_URL"], os.environ["SLUICE_TOKEN"], args.ns)
    done = {}
    while True:
        claim = {"worker": f"hashing-{os.getpid()}", "max": 20, "wait": "2s" if args.once else "30s"}
        jobs = server.post("claim", claim)["jobs"]
        if not jobs and args.once:
            break
        for job in jobs:
            what = f"{job['type']} {work(server, job)}"
            done[what] = done.get(what, 0) + 1
    print(", ".join(f"{n} {what}" for what, n in sorted(done.items())) or "nothing to do")


if __name__ == "__main__":
    sys.exit(main())
