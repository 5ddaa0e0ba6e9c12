import base64
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def verify(secret: str, headers: dict[str, str], raw_body: bytes) -> dict:
    """The event, or a WebhookVerificationError."""
    webhook = Webhook("whsec_" + base64.b64encode(secret.encode()).decode())
    return webhook.verify(raw_body, headers)


if __name__ == "__main__":
    names = ["webhook-id", "webhook-timestamp", "webhook-signature"]
    try:
        verify(sys.argv[1], dict(zip(names, sys.argv[2:])), sys.stdin.buffer.read())
        print("valid")
    except WebhookVerificationError:
        print("invalid")
