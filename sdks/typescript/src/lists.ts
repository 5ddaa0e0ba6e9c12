/** The lists that grow, from the newest to the oldest, page by page. */
import { unwrap, type Dikala } from "./client.js";
import type { components, operations } from "./description.js";

type Schemas = components["schemas"];
type Filters<O extends keyof operations> = Omit<
  NonNullable<operations[O]["parameters"]["query"]>,
  "limit" | "offset" | "before"
>;

const LIMIT = 100;

/** All calls, newest first. Calls that come in meanwhile do not move it. */
export async function* eachCall(
  dikala: Dikala,
  filters: Filters<"calls.list"> = {},
): AsyncGenerator<Schemas["Call"], void, undefined> {
  let before: { before?: string } = {};
  for (;;) {
    const query = { ...filters, ...before, limit: LIMIT };
    const page = unwrap(await dikala.GET("/api/v1/calls", { params: { query } }));
    yield* page.calls;
    const oldest = page.calls.at(-1);
    if (!page.hasMore || oldest === undefined) {
      return;
    }
    before = { before: oldest.id };
  }
}

/** All credit transactions, newest first. */
export function eachTransaction(dikala: Dikala): AsyncGenerator<Schemas["Transaction"], void, undefined> {
  return eachOnce(async (page) => {
    const { transactions, hasMore } = unwrap(
      await dikala.GET("/api/v1/credits/transactions", { params: { query: page } }),
    );
    return [transactions, hasMore];
  });
}

/** All deliveries of a webhook, newest first. */
export function eachDelivery(
  dikala: Dikala,
  webhookId: string,
  filters: Filters<"webhooks.deliveries"> = {},
): AsyncGenerator<Schemas["Delivery"], void, undefined> {
  return eachOnce(async (page) => {
    const params = { path: { id: webhookId }, query: { ...filters, ...page } };
    const { deliveries, hasMore } = unwrap(await dikala.GET("/api/v1/webhooks/{id}/deliveries", { params }));
    return [deliveries, hasMore];
  });
}

/** What is added in front while pages are read pushes rows on to the next page: they come once all the same. */
async function* eachOnce<T extends { id: string }>(
  read: (page: { limit: number; offset: number }) => Promise<[T[], boolean]>,
): AsyncGenerator<T, void, undefined> {
  const seen = new Set<string>();
  for (let offset = 0; ; offset += LIMIT) {
    const [rows, hasMore] = await read({ limit: LIMIT, offset });
    for (const row of rows) {
      if (!seen.has(row.id)) {
        seen.add(row.id);
        yield row;
      }
    }
    if (!hasMore) {
      return;
    }
  }
}
