// What is taken for a delivery or a function's request, and what is not. The Python package is held to the same cases.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { verifyFunctionRequest, verifyWebhook, WebhookVerificationError } from "dikala";

const sources = process.env.DIKALA_SOURCES;
const { cases } = JSON.parse(readFileSync(join(sources, "sdks/vectors.json"), "utf8"));
const description = JSON.parse(readFileSync(join(sources, "openapi.json"), "utf8"));

for (const { name, good, secret, now, headers, body, tolerance } of cases) {
  test(`a delivery ${name} is ${good ? "taken" : "refused"}`, async () => {
    const options = { now: now * 1_000 + 999, ...(tolerance && { toleranceSeconds: tolerance }) };
    for (const raw of [body, Buffer.from(body)]) {
      const verified = verifyWebhook(raw, headers, secret, options);
      if (good) {
        const { id, event } = await verified;
        assert.equal(id, "evt_01k9zv3m8rj2q4w6y8a0c2e4g6");
        assert.deepEqual(event, JSON.parse(body));
      } else {
        await assert.rejects(verified, WebhookVerificationError);
      }
    }
  });
}

test("headers come as Headers too, and a repeated one is none", async () => {
  const { secret, now, headers, body } = cases[0];
  const options = { now: now * 1_000 };
  await verifyWebhook(body, new Headers(headers), secret, options);
  const twice = { ...headers, "webhook-id": [headers["webhook-id"], "evt_another"] };
  await assert.rejects(verifyWebhook(body, twice, secret, options), WebhookVerificationError);
  const again = { ...headers, "Webhook-Id": "evt_another" };
  await assert.rejects(verifyWebhook(body, again, secret, options), WebhookVerificationError);
});

test("no secret is no secret, and not the empty one", async () => {
  const { now, headers, body } = cases[0];
  for (const missing of [undefined, "", [], ["good-enough", ""], [undefined]]) {
    await assert.rejects(verifyWebhook(body, headers, missing, { now: now * 1_000 }), TypeError);
    await assert.rejects(verifyFunctionRequest(body, headers, missing), TypeError);
  }
});

test("every event of the description is taken", async () => {
  const kinds = Object.entries(description.webhooks);
  assert.ok(kinds.length >= 6);
  for (const [kind, { post }] of kinds) {
    const { example } = post.requestBody.content["application/json"];
    const body = JSON.stringify(example);
    const signature = createHmac("sha256", "a-secret").update(`evt_1.7.${body}`).digest("base64");
    const headers = { "webhook-id": "evt_1", "webhook-timestamp": "7", "webhook-signature": `v1,${signature}` };
    const { event } = await verifyWebhook(body, headers, "a-secret", { now: 7_000 });
    assert.equal(event.event, kind);
    assert.deepEqual(event, example);
  }
});

test("a function's request is taken if it is signed", async () => {
  const body = JSON.stringify({ callId: "call_1", functionName: "find_order", parameters: { orderNumber: "A-1042" } });
  const signature = createHmac("sha256", "a-secret").update(body).digest("hex");
  const signed = { "x-service-signature": `sha256=${signature}` };
  const request = await verifyFunctionRequest(body, signed, ["another", "a-secret"]);
  assert.deepEqual(request.parameters, { orderNumber: "A-1042" });
  for (const [raw, headers, secret] of [
    [`${body} `, signed, "a-secret"],
    [body, signed, "another"],
    [body, {}, "a-secret"],
    [body, { "x-service-signature": signature }, "a-secret"],
    [body, { "x-service-signature": `sha256=${signature.slice(2)}` }, "a-secret"],
    [body, { "x-service-signature": "sha256=" }, "a-secret"],
  ]) {
    await assert.rejects(verifyFunctionRequest(raw, headers, secret), WebhookVerificationError);
  }
});
