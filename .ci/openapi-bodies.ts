// The shortest bodies that the documentation shows, and what is read of the answers, have to fit the generated types.
import type { paths } from "./api";

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
