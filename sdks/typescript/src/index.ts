/** Client of Dikala: its API with types, and its webhooks verified. */
export { createClient, DikalaError, unwrap, type Dikala, type DikalaOptions } from "./client.js";
export { eachCall, eachDelivery, eachTransaction } from "./lists.js";
export {
  verifyFunctionRequest,
  verifyWebhook,
  WebhookVerificationError,
  type EventKind,
  type FunctionRequest,
  type RequestHeaders,
  type VerifiedWebhook,
  type WebhookEvent,
} from "./webhooks.js";
export type { components, operations, paths } from "./description.js";
