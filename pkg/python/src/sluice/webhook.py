"""Verifies the requests of a server, with the standard library alone. docs/signatures.md has the rules.

The scheme ed25519 needs the package cryptography: `pip install sluice-client[ed25519]`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

Scheme: TypeAlias = Literal["standard", "ed25519", "t-sha256", "header"]

TOLERANCE = 5 * 60  # seconds between the signing time and now


class SignatureError(Exception):
    """A request is not from the server, or was sent more than five minutes ago."""


def verify(
    body: bytes,
    headers: Mapping[str, str],
    keys: Sequence[str | Mapping[str, Any]],
    *,
    scheme: Scheme = "standard",
    header: str = "X-Fole-Signature",
    now: float | None = None,
) -> None:
    """Raises SignatureError unless a request is genuine.

    body: the raw body; JSON that was parsed and written again has other bytes
    keys: the secrets, "whsec_…": two during a rotation. For ed25519 the "keys" of get_keys()
    scheme: the scheme of the subscription
    header: the header of the scheme "header", if the subscription names another
    now: the time in seconds; default: now
    """
    given = {name.lower(): value for name, value in headers.items()}
    secrets = [key for key in keys if isinstance(key, str)]
    signature = given.get("webhook-signature", "")
    match scheme:
        case "standard":
            content = dated(body, given, now)
            decoded = [base64.b64decode(secret.removeprefix("whsec_")) for secret in secrets]
            genuine = any(hmac.compare_digest(mac(key, content), one) for one in versions(signature, "v1") for key in decoded)
        case "ed25519":
            content = dated(body, given, now)
            public = [key for key in keys if not isinstance(key, str)]
            genuine = any(is_signed(key, one, content) for one in versions(signature, "v1a") for key in public)
        case "t-sha256":
            found = re.fullmatch(r"t=(\d+),sha256=([0-9a-f]{64})", signature, re.ASCII)
            check_time(int(found[1]) if found else None, now)
            genuine = found is not None and is_mac(found[2], f"{found[1]}.".encode() + body, secrets)
        case "header":
            found = re.fullmatch(r"sha256=([0-9a-f]{64})", given.get(header.lower(), ""))
            genuine = found is not None and is_mac(found[1], body, secrets)
    if not genuine:
        raise SignatureError("the signature is not that of a known key")


def verify_attempt(body: bytes, secrets: Sequence[str], *, now: float | None = None) -> None:
    """Raises SignatureError unless the signature inside a body of the envelope "attempt" is genuine.

    Verify the request first.
    """
    unsigned: dict[str, Any] = json.loads(body)
    signature = str(unsigned.pop("signature", ""))
    at = datetime.fromisoformat(re.sub(r"\.\d+", "", str(unsigned["timestamp"])).replace("Z", "+00:00"))
    check_time(at.timestamp(), now)
    if not re.fullmatch(r"[0-9a-f]{64}", signature) or not is_mac(signature, canonical(unsigned).encode(), secrets):
        raise SignatureError("the signature is not that of a known key")


def dated(body: bytes, headers: Mapping[str, str], now: float | None) -> bytes:
    """Returns what Standard Webhooks signs, if the time is right."""
    at = headers.get("webhook-timestamp", "")
    check_time(int(at) if at.isascii() and at.isdigit() else None, now)
    return f"{headers.get('webhook-id', '')}.{at}.".encode() + body


def check_time(at: float | None, now: float | None) -> None:
    if at is None or abs((time.time() if now is None else now) - at) > TOLERANCE:
        raise SignatureError("the time is missing, or more than five minutes from now")


def versions(signature: str, version: str) -> Iterator[bytes]:
    """Yields the signatures of a version; those that are not base64 are none."""
    for one in signature.split(" "):
        name, _, value = one.partition(",")
        if name == version:
            try:
                yield base64.b64decode(value, validate=True)
            except binascii.Error:
                continue


def is_signed(jwk: Mapping[str, Any], signature: bytes, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    x = str(jwk["x"])
    key = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(x + "=" * (-len(x) % 4)))
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def is_mac(digest: str, content: bytes, secrets: Sequence[str]) -> bool:
    return any(hmac.compare_digest(mac(secret.encode(), content), bytes.fromhex(digest)) for secret in secrets)


def mac(key: bytes, content: bytes) -> bytes:
    return hmac.new(key, content, hashlib.sha256).digest()


def canonical(value: Any) -> str:
    """Returns the canonical form of a JSON value (RFC 8785): sorted names, no white space, numbers as JavaScript writes them."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        names = sorted(members, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{text(name)}:{canonical(members[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(one) for one in cast("list[Any]", value)) + "]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(float(value))
    return text(value)


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def number(value: float) -> str:
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
