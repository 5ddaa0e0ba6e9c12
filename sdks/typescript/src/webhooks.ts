/** What the service sends: checked for its signature, and typed. */
import type { webhooks } from "./description.js";

/** An event of any kind, told apart by `event`. A later version of the service may send kinds that are not here. */
export type WebhookEvent = {
  [Kind in keyof webhooks]: webhooks[Kind]["post"]["requestBody"]["content"]["application/json"];
}[keyof webhooks];

export type EventKind = WebhookEvent["event"];

export interface VerifiedWebhook {
  /** The event's id. It is the same whenever the event is sent again: keep it to recognise repeats. */
  id: string;
  event: WebhookEvent;
}

/** What the AI wants of a function of yours. */
export interface FunctionRequest {
  callId: string;
  functionName: string;
  parameters: Record<string, unknown>;
}

/** `Headers`, whoever's they are, or what Node has as `request.headers`. */
export type RequestHeaders = Pick<Headers, "get"> | Record<string, string | readonly string[] | undefined>;

/** What came is not what the service sent, or is too old. Answer it with a 400. */
export class WebhookVerificationError extends Error {
  override readonly name = "WebhookVerificationError";
}

/**
 * The event of a delivery, or a `WebhookVerificationError`.
 *
 * `rawBody` is the body as it arrived, before any parsing. `secret` is the webhook's as it was registered, or several, any of
 * which may have signed: while one replaces another, both are good.
 */
export async function verifyWebhook(
  rawBody: Uint8Array | string,
  headers: RequestHeaders,
  secret: string | readonly string[],
  { toleranceSeconds = 300, now = Date.now() }: { toleranceSeconds?: number; now?: number } = {},
): Promise<VerifiedWebhook> {
  const secrets = usable(secret);
  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  if (!/^[0-9]{1,15}$/.test(timestamp)) {
    throw new WebhookVerificationError("webhook-timestamp is no time in seconds.");
  }
  const away = Math.floor(now / 1_000) - Number(timestamp);
  if (Math.abs(away) > toleranceSeconds) {
    const when = away > 0 ? "old" : "far in the future";
    throw new WebhookVerificationError(`The delivery is too ${when}; compare the clocks.`);
  }
  const body = bytes(rawBody);
  const signed = joined(bytes(`${id}.${timestamp}.`), body);
  const signatures = header(headers, "webhook-signature")
    .split(" ")
    .filter((signature) => signature.startsWith("v1,"))
    .map((signature) => fromBase64(signature.slice(3)));
  if (!(await isSigned(signed, signatures, secrets))) {
    throw new WebhookVerificationError("No signature of the delivery is by this secret.");
  }
  const event = parsed(body);
  if (typeof event["event"] !== "string" || !isObject(event["data"])) {
    throw new WebhookVerificationError("The body is no event.");
  }
  return { id, event: event as unknown as WebhookEvent };
}

/** The request of a function, or a `WebhookVerificationError`. `secret` is the tenant's function secret. */
export async function verifyFunctionRequest(
  rawBody: Uint8Array | string,
  headers: RequestHeaders,
  secret: string | readonly string[],
): Promise<FunctionRequest> {
  const secrets = usable(secret);
  const body = bytes(rawBody);
  const signature = /^sha256=([0-9a-f]{64})$/.exec(header(headers, "x-service-signature"))?.[1];
  if (signature === undefined || !(await isSigned(body, [fromHex(signature)], secrets))) {
    throw new WebhookVerificationError("The request is not signed by this secret.");
  }
  return parsed(body) as unknown as FunctionRequest;
}

/** A variable of the environment that is not set must not become a secret that anybody knows. */
function usable(secret: string | readonly string[]): readonly string[] {
  const secrets = typeof secret === "string" ? [secret] : secret;
  if (!Array.isArray(secrets) || secrets.length === 0 || secrets.some((one) => typeof one !== "string" || one === "")) {
    throw new TypeError("A secret is missing.");
  }
  return secrets;
}

/** `crypto.subtle.verify` compares in constant time. */
async function isSigned(message: Uint8Array<ArrayBuffer>, signatures: Uint8Array<ArrayBuffer>[], secrets: readonly string[]) {
  let found = false;
  for (const secret of secrets) {
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", bytes(secret), algorithm, false, ["verify"]);
    for (const signature of signatures) {
      found = (await crypto.subtle.verify("HMAC", key, signature, message)) || found;
    }
  }
  return found;
}

function header(headers: RequestHeaders, name: string): string {
  const value = areHeaders(headers) ? headers.get(name) : own(headers, name);
  if (typeof value !== "string" || value === "") {
    throw new WebhookVerificationError(`The header ${name} is missing.`);
  }
  return value;
}

function areHeaders(headers: RequestHeaders): headers is Pick<Headers, "get"> {
  return typeof headers.get === "function";
}

/** Of a header that came more than once none is taken. */
function own(headers: Record<string, string | readonly string[] | undefined>, name: string): string | undefined {
  const found = Object.entries(headers).filter(([key]) => key.toLowerCase() === name);
  const values = found.flatMap(([, value]) => value ?? []);
  return values.length === 1 ? values[0] : undefined;
}

function parsed(body: Uint8Array): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new WebhookVerificationError("The body is not JSON.");
  }
  if (!isObject(value)) {
    throw new WebhookVerificationError("The body is no JSON object.");
  }
  return value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function bytes(text: Uint8Array | string): Uint8Array<ArrayBuffer> {
  return typeof text === "string" ? new TextEncoder().encode(text) : new Uint8Array(text);
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}

function fromHex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** Nothing where it is no base64, which is no signature of anything. */
function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
