"""Verifies the requests of a server, with the standard library alone. docs/signatures.md has the rules.

The schemes ed25519 and rfc9421 need the package cryptography: `pip install sluice-client[ed25519]`.
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

Scheme: TypeAlias = Literal["standard", "ed25519", "t-sha256", "header", "rfc9421"]

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
    url: str = "",
    method: str = "POST",
    now: float | None = None,
) -> None:
    """Raises SignatureError unless a request is genuine, and ValueError for an empty secret.

    body: the raw body; JSON that was parsed and written again has other bytes
    keys: the secrets, "whsec_…": two during a rotation. For ed25519 and rfc9421 the "keys" of get_keys()
    scheme: the scheme of the subscription
    header: the header of the scheme "header", if the subscription names another
    url: the URL to which the request was sent, for rfc9421: that of the endpoint, whose host a proxy may hide
    method: the method, for rfc9421
    now: the time in seconds; default: now
    """
    given = {name.lower(): value for name, value in headers.items()}
    secrets = [key for key in keys if isinstance(key, str)]
    check_secrets(secrets, scheme)
    signature = given.get("webhook-signature", "")
    match scheme:
        case "standard":
            content = dated(body, given, now)
            shared = [secret_bytes(secret) for secret in secrets]
            genuine = any(hmac.compare_digest(mac(key, content), one) for one in versions(signature, "v1") for key in shared)
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
        case "rfc9421":
            public = [key for key in keys if not isinstance(key, str)]
            genuine = is_message(body, given, public, request_parts(method, url), now)
    if not genuine:
        raise SignatureError("the signature is not that of a known key")


def verify_attempt(body: bytes, secrets: Sequence[str], *, now: float | None = None) -> None:
    """Raises SignatureError unless the signature inside a body of the envelope "attempt" is genuine, and ValueError for an empty secret.

    Verify the request first.
    """
    check_secrets(secrets)
    unsigned: dict[str, Any] = json.loads(body)
    signature = str(unsigned.pop("signature", ""))
    at = datetime.fromisoformat(re.sub(r"\.\d+", "", str(unsigned["timestamp"])).replace("Z", "+00:00"))
    check_time(at.timestamp(), now)
    if not re.fullmatch(r"[0-9a-f]{64}", signature) or not is_mac(signature, canonical(unsigned).encode(), secrets):
        raise SignatureError("the signature is not that of a known key")


def check_secrets(secrets: Sequence[str], scheme: Scheme | None = None) -> None:
    """Raises ValueError for an empty secret, such as that of a variable that is not set: anyone can sign with it."""
    if any(not secret or (scheme == "standard" and not secret_bytes(secret)) for secret in secrets):
        raise ValueError("a secret is empty: is its variable set?")


def secret_bytes(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"))


def dated(body: bytes, headers: Mapping[str, str], now: float | None) -> bytes:
    """Returns what Standard Webhooks signs, if the time is right."""
    at = headers.get("webhook-timestamp", "")
    check_time(int(at) if at.isascii() and at.isdigit() else None, now)
    return f"{headers.get('webhook-id', '')}.{at}.".encode() + body


# A member of Signature-Input: its label, what is signed of it, and in that the quoted components and the time.
MESSAGE_INPUT = re.compile(
    r'(?<![\w*.-])([a-z*][a-z0-9_.*-]*)=(\(("[@a-z0-9_-]+"(?: "[@a-z0-9_-]+")*)\);created=(\d{1,12})'
    r'(?:;[a-z*][a-z0-9_.*-]*(?:=(?:-?\d+|"[^"\\]*"))?)*)',
    re.ASCII,
)
MESSAGE_SIGNATURE = re.compile(r"([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):")
MUST_COVER = {"@method", "@authority", "@path", "@query", "content-digest", "content-type", "webhook-id"}


def is_message(
    body: bytes, headers: Mapping[str, str], keys: Sequence[Mapping[str, Any]], parts: Mapping[str, str], now: float | None
) -> bool:
    """Says whether a key signed a request by RFC 9421, with a digest of the body."""
    digest = re.search(r"(?:^|[ ,])sha-256=:([A-Za-z0-9+/=]*):", headers.get("content-digest", ""))
    if not digest or not hmac.compare_digest(decoded(digest[1]), hashlib.sha256(body).digest()):
        return False
    signatures = {label: decoded(value) for label, value in MESSAGE_SIGNATURE.findall(headers.get("signature", ""))}
    for label, params, quoted, created in MESSAGE_INPUT.findall(headers.get("signature-input", "")[:16384])[:16]:
        content = signature_base([name[1:-1] for name in quoted.split(" ")], params, headers, parts)
        if content is None or label not in signatures or not is_timely(int(created), now):
            continue
        if any(is_signed(key, signatures[label], content) for key in keys):
            return True
    return False


def request_parts(method: str, url: str) -> dict[str, str]:
    """Returns the components that RFC 9421 derives from a request."""
    found = re.match(r"https?://(?:[^/?#@]*@)?([^/?#@]+)([^?#]*)(\?[^#]*)?", url, re.IGNORECASE)
    if not found:
        raise TypeError("the scheme rfc9421 needs the URL to which the request was sent")
    return {
        "@method": method,
        "@authority": re.sub(r":(80|443)$", "", found[1].lower()),
        "@path": found[2] or "/",
        "@query": found[3] or "?",
    }


def signature_base(names: list[str], params: str, headers: Mapping[str, str], parts: Mapping[str, str]) -> bytes | None:
    """Returns what RFC 9421 signs; None if it is not enough, or not known."""
    values = {name: parts.get(name) if name.startswith("@") else headers.get(name) for name in names}
    if len(values) < len(names) or not MUST_COVER.issubset(values) or None in values.values():
        return None
    lines = [f'"{name}": {str(value).strip()}' for name, value in values.items()]
    return "\n".join([*lines, f'"@signature-params": {params}']).encode("latin-1", "replace")


def decoded(value: str) -> bytes:
    """Returns the bytes of base64; none if it is not base64."""
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return b""


def is_timely(at: float, now: float | None) -> bool:
    return abs((time.time() if now is None else now) - at) <= TOLERANCE


def check_time(at: float | None, now: float | None) -> None:
    if at is None or not is_timely(at, now):
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
