import createFetchClient, { type Client } from "openapi-fetch";

import type { components, paths } from "./description.js";
import { repeating } from "./repeating.js";

/** Every operation of the API: `dikala.GET("/api/v1/calls/{id}", { params: { path: { id } } })`. */
export type Dikala = Client<paths>;

export interface DikalaOptions {
  /** Where the service is, such as `https://calls.example.com`. */
  url: string;
  /** A key of the tenant: `dkl_…`. */
  apiKey: string;
  /** How often a request that failed in passing is sent again; 2 unless told otherwise. */
  retries?: number;
  /** What sends requests, in the place of the global `fetch`. */
  fetch?: (request: Request) => Promise<Response>;
}

/**
 * A client of the API. Every POST gets an `Idempotency-Key` if it has none, so that sending it again after a lost connection has
 * the effect of one request.
 */
export function createClient({ url, apiKey, retries = 2, fetch }: DikalaOptions): Dikala {
  const send = fetch ?? ((request: Request) => globalThis.fetch(request));
  return createFetchClient<paths>({
    baseUrl: url,
    headers: { "x-api-key": apiKey },
    fetch: repeating(send, retries),
  });
}

type ErrorBody = components["schemas"]["Error"]["error"];

/** An answer that is not a 2xx. Decide by `code`; `message` is for people. */
export class DikalaError extends Error {
  override readonly name = "DikalaError";
  readonly status: number;
  /** None where something in between answered, such as a proxy. */
  readonly code: ErrorBody["code"] | undefined;
  readonly fields: NonNullable<ErrorBody["fields"]>;
  /** Quote it to the operator. */
  readonly requestId: string | undefined;

  constructor(status: number, body: ErrorBody | undefined) {
    super(body?.message ?? `The answer was a ${status} that is not the service's own.`);
    this.status = status;
    this.code = body?.code;
    this.fields = body?.fields ?? [];
    this.requestId = body?.requestId;
  }
}

/** What was asked for, or a `DikalaError`. */
export function unwrap<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (!answer.response.ok) {
    throw new DikalaError(answer.response.status, errorBody(answer.error));
  }
  return answer.data as T;
}

function errorBody(error: unknown): ErrorBody | undefined {
  const body = (error as components["schemas"]["Error"] | null | undefined)?.error;
  return typeof body?.code === "string" ? body : undefined;
}
