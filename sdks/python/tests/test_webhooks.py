"""What is taken for a delivery or a function's request, and what is not. The TypeScript package is held to the same cases."""

import hashlib
import hmac
import base64
import json
import os
import pathlib
import unittest
from datetime import datetime

from dikala.webhooks import EVENTS, UnknownEvent, WebhookVerificationError, verify_function_request, verify_webhook

SOURCES = pathlib.Path(os.environ["DIKALA_SOURCES"])
CASES = json.loads((SOURCES / "sdks/vectors.json").read_text("utf-8"))["cases"]
DESCRIPTION = json.loads((SOURCES / "openapi.json").read_text("utf-8"))
SECRET = "a-secret"


def verified(body: str):
    digest = hmac.new(SECRET.encode(), f"evt_1.7.{body}".encode(), hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    headers = {"webhook-id": "evt_1", "webhook-timestamp": "7", "webhook-signature": signature}
    return verify_webhook(body.encode(), headers, SECRET, now=7)


class Webhooks(unittest.TestCase):
    def test_deliveries_are_told_from_what_is_none(self):
        self.assertGreater(len(CASES), 30)
        for case in CASES:
            with self.subTest(case["name"]):
                options = {"now": case["now"] + 0.999}
                if "tolerance" in case:
                    options["tolerance_seconds"] = case["tolerance"]
                arguments = (case["body"].encode(), case["headers"], case["secret"])
                if case["good"]:
                    webhook = verify_webhook(*arguments, **options)
                    self.assertEqual(webhook.id, "evt_01k9zv3m8rj2q4w6y8a0c2e4g6")
                    self.assertEqual(webhook.event.data.transcript_summary, "Kopi — dua ☕")
                else:
                    with self.assertRaises(WebhookVerificationError):
                        verify_webhook(*arguments, **options)

    def test_headers_come_as_pairs_too_and_a_repeated_one_is_none(self):
        case = CASES[0]
        pairs = list(case["headers"].items())
        verify_webhook(case["body"].encode(), pairs, case["secret"], now=case["now"])
        with self.assertRaises(WebhookVerificationError):
            twice = [*pairs, ("Webhook-Id", "evt_another")]
            verify_webhook(case["body"].encode(), twice, case["secret"], now=case["now"])

    def test_a_body_that_is_no_text_is_refused(self):
        case = CASES[0]
        with self.assertRaises(WebhookVerificationError):
            verify_webhook(b"\xff\xfe", case["headers"], case["secret"], now=case["now"])

    def test_no_secret_is_no_secret_and_not_the_empty_one(self):
        case = CASES[0]
        for missing in (None, "", [], ["good-enough", ""], [None]):
            with self.subTest(missing), self.assertRaises(TypeError):
                verify_webhook(case["body"].encode(), case["headers"], missing, now=case["now"])
            with self.subTest(missing), self.assertRaises(TypeError):
                verify_function_request(case["body"].encode(), case["headers"], missing)

    def test_every_event_of_the_description_has_its_class_with_every_field(self):
        self.assertEqual(set(EVENTS), set(DESCRIPTION["webhooks"]))
        subscribed = DESCRIPTION["components"]["schemas"]["WebhookCreate"]["properties"]["events"]["items"]["enum"]
        self.assertEqual(set(EVENTS), set(subscribed))
        for kind, operation in DESCRIPTION["webhooks"].items():
            example = operation["post"]["requestBody"]["content"]["application/json"]["example"]
            event = verified(json.dumps(example)).event
            self.assertIs(type(event), EVENTS[kind])
            self.assertEqual(event.event, kind)
            self.assertEqual(event.timestamp, datetime.fromisoformat(example["timestamp"]))
            # Nothing of it is unknown, and nothing is lost.
            self.assertEqual((event.additional_keys, event.data.additional_keys), ([], []))
            self.assertEqual(set(event.data.to_dict()), set(example["data"]))

    def test_an_event_of_an_erased_call_is_an_event(self):
        data = {"callId": "call_1", "functionName": "find_order", "parameters": None, "result": None}
        body = {"event": "function.called", "timestamp": "2026-01-15T03:31:34.000Z", "data": data}
        self.assertIsNone(verified(json.dumps(body)).event.data.result)

    def test_a_kind_that_came_later_is_not_refused(self):
        later = {"event": "call.parked", "timestamp": "2026-01-15T03:31:34.000Z", "data": {"callId": "call_1"}}
        self.assertEqual(verified(json.dumps(later)).event, UnknownEvent("call.parked", {"callId": "call_1"}))
        ended = {"event": "call.ended", "timestamp": "2026-01-15T03:31:34.000Z", "data": {}}
        with self.assertRaises(WebhookVerificationError):
            verified(json.dumps(ended))

    def test_a_functions_request_is_taken_if_it_is_signed(self):
        body = b'{"callId":"call_1","functionName":"find_order","parameters":{"orderNumber":"A-1042"}}'
        digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        signed = {"X-Service-Signature": f"sha256={digest}"}
        request = verify_function_request(body, signed, ["another", SECRET])
        self.assertEqual(request.parameters, {"orderNumber": "A-1042"})
        for raw, headers, secret in [
            (body + b" ", signed, SECRET),
            (body, signed, "another"),
            (body, {}, SECRET),
            (body, {"x-service-signature": digest}, SECRET),
            (body, {"x-service-signature": f"sha256={digest[2:]}"}, SECRET),
            (body, {"x-service-signature": "sha256="}, SECRET),
        ]:
            with self.assertRaises(WebhookVerificationError):
                verify_function_request(raw, headers, secret)


if __name__ == "__main__":
    unittest.main()
