"""What the service sends: checked for its signature, and typed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .models.call_answered_event import CallAnsweredEvent
from .models.call_ended_event import CallEndedEvent
from .models.call_started_event import CallStartedEvent
from .models.call_transcript_event import CallTranscriptEvent
from .models.credits_low_event import CreditsLowEvent
from .models.function_called_event import FunctionCalledEvent

Event = (
    CallStartedEvent | CallAnsweredEvent | CallEndedEvent | CallTranscriptEvent | CreditsLowEvent | FunctionCalledEvent
)

EVENTS: Mapping[str, type[Event]] = {
    "call.started": CallStartedEvent,
    "call.answered": CallAnsweredEvent,
    "call.ended": CallEndedEvent,
    "call.transcript": CallTranscriptEvent,
    "credits.low": CreditsLowEvent,
    "function.called": FunctionCalledEvent,
}


@dataclass(frozen=True)
class UnknownEvent:
    """An event of a kind that came after this version of the package."""

    event: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class VerifiedWebhook:
    # The event's id. It is the same whenever the event is sent again: keep it to recognise repeats.
    id: str
    event: Event | UnknownEvent


@dataclass(frozen=True)
class FunctionRequest:
    """What the AI wants of a function of yours."""

    call_id: str
    function_name: str
    parameters: Mapping[str, Any]


class WebhookVerificationError(Exception):
    """What came is not what the service sent, or is too old. Answer it with a 400."""


# The headers as a mapping, or as pairs of names and values.
Headers = Mapping[str, str] | Iterable[tuple[str, str]]


def verify_webhook(
    raw_body: bytes,
    headers: Headers,
    secret: str | Sequence[str],
    *,
    tolerance_seconds: int = 300,
    now: float | None = None,
) -> VerifiedWebhook:
    """The event of a delivery, or a `WebhookVerificationError`.

    `raw_body` is the body as it arrived, before any parsing. `secret` is the webhook's as it was registered, or several, any of
    which may have signed: while one replaces another, both are good.
    """
    secrets = _usable(secret)
    named = _lowered(headers)
    event_id = _header(named, "webhook-id")
    timestamp = _header(named, "webhook-timestamp")
    if not re.fullmatch("[0-9]{1,15}", timestamp):
        raise WebhookVerificationError("webhook-timestamp is no time in seconds.")
    away = int(time.time() if now is None else now) - int(timestamp)
    if abs(away) > tolerance_seconds:
        when = "old" if away > 0 else "far in the future"
        raise WebhookVerificationError(f"The delivery is too {when}; compare the clocks.")
    signatures = [
        _from_base64(signature[3:])
        for signature in _header(named, "webhook-signature").split(" ")
        if signature.startswith("v1,")
    ]
    if not _is_signed(f"{event_id}.{timestamp}.".encode() + raw_body, signatures, secrets):
        raise WebhookVerificationError("No signature of the delivery is by this secret.")
    return VerifiedWebhook(event_id, _event(_parsed(raw_body)))


def verify_function_request(raw_body: bytes, headers: Headers, secret: str | Sequence[str]) -> FunctionRequest:
    """The request of a function, or a `WebhookVerificationError`. `secret` is the tenant's function secret."""
    secrets = _usable(secret)
    signature = re.fullmatch("sha256=([0-9a-f]{64})", _header(_lowered(headers), "x-service-signature"))
    if signature is None or not _is_signed(raw_body, [bytes.fromhex(signature[1])], secrets):
        raise WebhookVerificationError("The request is not signed by this secret.")
    body = _parsed(raw_body)
    try:
        return FunctionRequest(body["callId"], body["functionName"], body["parameters"])
    except KeyError as missing:
        raise WebhookVerificationError(f"The body has no {missing}.") from None


def _usable(secret: str | Sequence[str]) -> Sequence[str]:
    """A variable of the environment that is not set must not become a secret that anybody knows."""
    secrets = [secret] if isinstance(secret, str) else list(secret or [])
    if not secrets or not all(isinstance(one, str) and one for one in secrets):
        raise TypeError("A secret is missing.")
    return secrets


def _is_signed(message: bytes, signatures: Sequence[bytes], secrets: Sequence[str]) -> bool:
    found = False
    for secret in secrets:
        digest = hmac.new(secret.encode(), message, hashlib.sha256).digest()
        for signature in signatures:
            found = hmac.compare_digest(digest, signature) or found
    return found


def _lowered(headers: Headers) -> dict[str, list[str]]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    named: dict[str, list[str]] = {}
    for name, value in pairs:
        named.setdefault(name.lower(), []).append(value)
    return named


def _header(headers: Mapping[str, list[str]], name: str) -> str:
    """Of a header that came more than once none is taken."""
    values = headers.get(name, [])
    if len(values) != 1 or not isinstance(values[0], str) or not values[0]:
        raise WebhookVerificationError(f"The header {name} is missing.")
    return values[0]


def _from_base64(text: str) -> bytes:
    """Nothing where it is no base64, which is no signature of anything."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _parsed(raw_body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw_body.decode())
    except (ValueError, RecursionError):
        raise WebhookVerificationError("The body is not JSON.") from None
    if not isinstance(value, dict):
        raise WebhookVerificationError("The body is no JSON object.")
    return value


def _event(body: dict[str, Any]) -> Event | UnknownEvent:
    kind, data = body.get("event"), body.get("data")
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise WebhookVerificationError("The body is no event.")
    known = EVENTS.get(kind)
    if known is None:
        return UnknownEvent(kind, data)
    try:
        return known.from_dict(body)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise WebhookVerificationError(f"The body is no {kind}.") from None
