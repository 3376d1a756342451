"""Verifies the requests of Sluice in Python, with the standard library alone. See ../../signatures.md for the rules.

The scheme ed25519 needs a package (say, cryptography), as the standard library has no Ed25519.
"""

import base64
import binascii
import hashlib
import hmac
import json
import math
import re
import time
from datetime import datetime

TOLERANCE = 5 * 60  # seconds between the signing time and now


def is_genuine(scheme, headers, body, secrets, header="x-fole-signature", now=None):
    """Returns whether a request is genuine.

    scheme: "standard", "t-sha256" or "header", as the subscription says
    headers: a dict with names in lower case
    body: the raw body, as bytes; never JSON that was parsed and written again
    secrets: the secrets ("whsec_…"), two during a rotation
    header: the header of the scheme "header", if the subscription names another
    """
    now = time.time() if now is None else now
    signature = headers.get("webhook-signature", "")
    if scheme == "standard":
        at = headers.get("webhook-timestamp", "")
        content = f"{headers.get('webhook-id', '')}.{at}.".encode() + body
        keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in secrets]
        given = [one[3:] for one in signature.split(" ") if one.startswith("v1,")]
        return is_recent(at, now) and any(
            hmac.compare_digest(mac(key, content), from_base64(one)) for key in keys for one in given
        )
    if scheme == "t-sha256":
        found = re.fullmatch(r"t=(\d+),sha256=([0-9a-f]{64})", signature)
        if not found or not is_recent(found[1], now):
            return False
        content, given = f"{found[1]}.".encode() + body, bytes.fromhex(found[2])
        return any(hmac.compare_digest(mac(secret.encode(), content), given) for secret in secrets)
    if scheme == "header":
        found = re.fullmatch(r"sha256=([0-9a-f]{64})", headers.get(header.lower(), ""))
        return bool(found) and any(
            hmac.compare_digest(mac(secret.encode(), body), bytes.fromhex(found[1])) for secret in secrets
        )
    raise ValueError(f"unknown scheme {scheme}")


def is_genuine_attempt(body, secrets, now=None):
    """Returns whether the signature inside a body of the envelope "attempt" is genuine."""
    now = time.time() if now is None else now
    unsigned = json.loads(body)
    signature = unsigned.pop("signature", "")
    if not re.fullmatch(r"[0-9a-f]{64}", signature):
        return False
    at = datetime.fromisoformat(re.sub(r"\.\d+", "", unsigned["timestamp"]).replace("Z", "+00:00")).timestamp()
    content, given = canonical(unsigned).encode(), bytes.fromhex(signature)
    return abs(now - at) <= TOLERANCE and any(
        hmac.compare_digest(mac(secret.encode(), content), given) for secret in secrets
    )


def canonical(value):
    """Returns the canonical form of a JSON value (RFC 8785): sorted names, no white space, numbers as JavaScript writes them."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{text(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(float(value))
    return text(value)


def text(value):
    return json.dumps(value, ensure_ascii=False)


def number(value):
    """Returns a number as JavaScript writes it; repr has the same digits in another layout."""
    if not math.isfinite(value):
        raise ValueError("no canonical form")
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))  # digits before the point
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    if point > 21 or point < -5:
        power = point - 1
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{'+' if power > 0 else '-'}{abs(power)}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return sign + digits.ljust(point, "0")
    return f"{sign}{digits[:point]}.{digits[point:]}"


def from_base64(value):
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return b""


def mac(key, content):
    return hmac.new(key, content, hashlib.sha256).digest()


def is_recent(at, now):
    return at.isascii() and at.isdigit() and abs(now - int(at)) <= TOLERANCE
