// What the client does on its own: sending again, reading lists to their end, errors.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient, DikalaError, eachCall, eachDelivery, eachTransaction, unwrap } from "dikala";

const json = (status, body, headers = {}) => new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } });
const refusal = (code) => ({ error: { code, message: "No.", requestId: "req_1", fields: [{ field: "name", code: "required", message: "name is required." }] } });
const at_once = { "retry-after": "0" };

/** A client, what it asked, and the answers that it gets one after the other; a function is called with the request. */
function against(answers, options = {}) {
  const asked = [];
  const fetch = async (request) => {
    asked.push(request);
    const answer = answers.shift();
    return typeof answer === "function" ? answer(request) : answer;
  };
  return { asked, dikala: createClient({ url: "http://dikala.test/", apiKey: "dkl_key", fetch, ...options }) };
}

const lost = () => {
  throw new TypeError("fetch failed");
};
const create = (dikala, headers = {}) => dikala.POST("/api/v1/agents", { body: { name: "Ayu", systemPrompt: "Be brief." }, headers });

test("a request has the key and the address", async () => {
  const { asked, dikala } = against([json(200, { agents: [] })]);
  unwrap(await dikala.GET("/api/v1/agents"));
  assert.equal(asked[0].url, "http://dikala.test/api/v1/agents");
  assert.equal(asked[0].headers.get("x-api-key"), "dkl_key");
  assert.equal(asked[0].headers.get("idempotency-key"), null);
});

test("a POST is sent again under one key until it is answered", async () => {
  const answers = [lost, json(503, refusal("unavailable"), at_once), json(409, refusal("idempotency_in_progress"), at_once), json(429, refusal("rate_limited"), at_once), json(201, { id: "agent_1" })];
  const { asked, dikala } = against(answers, { retries: 4 });
  assert.equal(unwrap(await create(dikala)).id, "agent_1");
  assert.equal(asked.length, 5);
  assert.equal(new Set(asked.map((request) => request.headers.get("idempotency-key"))).size, 1);
  assert.match(asked[0].headers.get("idempotency-key"), /^[0-9a-f-]{36}$/);
  const bodies = await Promise.all(asked.map((request) => request.text()));
  assert.deepEqual(new Set(bodies), new Set(['{"name":"Ayu","systemPrompt":"Be brief."}']));
});

test("two POSTs have two keys, and one's own key stays", async () => {
  const { asked, dikala } = against([json(201, {}), json(201, {}), json(201, {})]);
  await create(dikala);
  await create(dikala);
  await create(dikala, { "Idempotency-Key": "order-7" });
  const keys = asked.map((request) => request.headers.get("idempotency-key"));
  assert.equal(new Set(keys).size, 3);
  assert.equal(keys[2], "order-7");
});

test("what does not pass is not sent again", async () => {
  for (const [status, code, headers] of [
    [422, "validation_failed", at_once],
    [409, "function_exists", at_once],
    [500, "internal_error", at_once],
    [429, "rate_limited", { "retry-after": "61" }],
  ]) {
    const { asked, dikala } = against([json(status, refusal(code), headers)]);
    const { error } = await create(dikala);
    assert.equal(error.error.code, code);
    assert.equal(asked.length, 1);
  }
  const { asked, dikala } = against([lost]);
  await assert.rejects(dikala.DELETE("/api/v1/agents/{id}", { params: { path: { id: "agent_1" } } }), /fetch failed/);
  assert.equal(asked.length, 1);
});

test("it gives up after so many repeats", async () => {
  const answers = Array.from({ length: 9 }, () => json(503, refusal("unavailable"), at_once));
  const { asked, dikala } = against(answers);
  const { response } = await create(dikala);
  assert.equal(response.status, 503);
  assert.equal(asked.length, 3);
});

test("an aborted request is not sent again", async () => {
  const controller = new AbortController();
  const { asked, dikala } = against([
    () => {
      setTimeout(() => controller.abort(new Error("enough")), 10);
      return json(503, refusal("unavailable"), { "retry-after": "60" });
    },
  ]);
  await assert.rejects(dikala.GET("/api/v1/credits", { signal: controller.signal }), /enough/);
  assert.equal(asked.length, 1);
});

test("unwrap throws what the service said, and says where something else answered", async () => {
  const page = new Response("<h1>Bad gateway</h1>", { status: 502 });
  const nothing = new Response(null, { status: 502, headers: { "content-length": "0" } });
  const { dikala } = against([json(422, refusal("validation_failed")), page, nothing]);
  const said = await create(dikala).then(unwrap).catch((error) => error);
  assert.ok(said instanceof DikalaError);
  assert.deepEqual([said.status, said.code, said.requestId, said.fields[0].field], [422, "validation_failed", "req_1", "name"]);
  for (let answer = 0; answer < 2; answer += 1) {
    const other = await create(dikala).then(unwrap).catch((error) => error);
    assert.deepEqual([other.status, other.code, other.fields], [502, undefined, []]);
  }
});

const rows = (from, count) => Array.from({ length: count }, (_, index) => ({ id: `row_${from + index}` }));
const collected = async (list) => {
  const ids = [];
  for await (const row of list) ids.push(row.id);
  return ids;
};

test("calls are read on from the oldest that was seen", async () => {
  const page = (calls, hasMore) => json(200, { calls, hasMore, limit: 100, offset: 0 });
  const { asked, dikala } = against([page(rows(0, 100), true), page(rows(100, 100), true), page(rows(200, 3), false)]);
  assert.deepEqual(await collected(eachCall(dikala, { status: "ended" })), rows(0, 203).map(({ id }) => id));
  assert.deepEqual(asked.map(({ url }) => new URL(url).search), [
    "?status=ended&limit=100",
    "?status=ended&before=row_99&limit=100",
    "?status=ended&before=row_199&limit=100",
  ]);
});

test("what is pushed on to the next page comes once", async () => {
  const transactions = [json(200, { transactions: rows(0, 100), hasMore: true }), json(200, { transactions: rows(97, 10), hasMore: false })];
  const { asked, dikala } = against(transactions);
  assert.deepEqual(await collected(eachTransaction(dikala)), rows(0, 107).map(({ id }) => id));
  assert.match(asked[1].url, /transactions\?limit=100&offset=100$/);

  const deliveries = [json(200, { deliveries: rows(0, 100), hasMore: true }), json(200, { deliveries: rows(100, 1), hasMore: false })];
  const hook = against(deliveries);
  assert.deepEqual(await collected(eachDelivery(hook.dikala, "wh_1", { status: "failed" })), rows(0, 101).map(({ id }) => id));
  assert.match(hook.asked[0].url, /webhooks\/wh_1\/deliveries\?status=failed&limit=100&offset=0$/);
});

test("a list that cannot be read throws", async () => {
  const { dikala } = against([json(401, refusal("invalid_api_key"))]);
  await assert.rejects(collected(eachTransaction(dikala)), { code: "invalid_api_key" });
});
