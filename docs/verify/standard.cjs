const { Webhook, WebhookVerificationError } = require("standardwebhooks");

// The event, or a WebhookVerificationError.
function verify(secret, headers, rawBody) {
  const webhook = new Webhook("whsec_" + Buffer.from(secret).toString("base64"));
  return webhook.verify(rawBody, headers);
}

const [secret, id, timestamp, signature] = process.argv.slice(2);
const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature };
const chunks = [];
process.stdin.on("data", (chunk) => chunks.push(chunk));
process.stdin.on("end", () => {
  try {
    verify(secret, headers, Buffer.concat(chunks));
    console.log("valid");
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log("invalid");
  }
});
