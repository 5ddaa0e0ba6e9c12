// The shortest bodies that the documentation shows, what is read of the answers and what events tell fit the types.
import type { components, EventKind, paths, WebhookEvent } from "dikala";

type Methods = "post" | "patch";
type Body<P extends keyof paths, M extends Methods> = paths[P][M] extends {
  requestBody?: { content: { "application/json": infer B } };
}
  ? B
  : never;

export const agent: Body<"/api/v1/agents", "post"> = {
  name: "Ayu",
  systemPrompt: "You answer the phone of a coffee shop in Bandung.",
};
export const changed: Body<"/api/v1/agents/{id}", "patch"> = { greetingText: null };
export const assigned: Body<"/api/v1/phone-numbers/{id}/assign-agent", "post"> = { agentId: "agent_…" };
export const webhook: Body<"/api/v1/webhooks", "post"> = {
  url: "https://example.com/hooks",
  events: ["call.started", "call.ended"],
  secret: "at-least-8-characters",
};
export const plain: Body<"/api/v1/agents/{id}/functions", "post"> = {
  name: "check_stock",
  description: "Looks up what is there.",
  endpoint: "https://example.com/stock",
};
export const full: Body<"/api/v1/agents/{id}/functions", "post"> = {
  ...plain,
  method: "GET",
  parameters: {
    type: "object",
    description: "What to look up.",
    properties: { sku: { type: "string", description: "The article." } },
    required: ["sku"],
  },
};
export const test: Body<"/api/v1/agents/{id}/functions/{name}/test", "post"> = { parameters: { sku: "a-1" } };
export const empty: Body<"/api/v1/agents/{id}/functions/{name}/test", "post"> = {};
export const transfer: Body<"/api/v1/calls/{id}/transfer", "post"> = {};
export const recovery: Body<"/api/v1/webhooks/{id}/recover", "post"> = { since: "2026-01-15" };
export const sample: Body<"/api/v1/events/sample", "post"> = { event: "call.ended" };

type Call = paths["/api/v1/calls/{id}"]["get"]["responses"][200]["content"]["application/json"];
export const told = (call: Call): [string, unknown] => [call.status, call.metadata["simulated"]];

// The union has every kind that a webhook can subscribe to, no other, and each kind leads to its fields.
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
export const all: Same<EventKind, components["schemas"]["WebhookCreate"]["events"][number]> = true;
export function said(event: WebhookEvent): string | number | null {
  switch (event.event) {
    case "call.started":
      return event.data.callerNumber;
    case "call.answered":
      return event.data.startedAt;
    case "call.ended":
      return event.data.talkTimeSeconds;
    case "call.transcript":
      return event.data.transcriptSummary;
    case "credits.low":
      return event.data.balanceMinutes;
    case "function.called":
      return String(event.data.result?.["status"]);
    default:
      return event satisfies never;
  }
}
