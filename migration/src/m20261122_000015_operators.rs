//! For the operators' API: paused webhooks, and idempotency keys that belong to no tenant.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "ALTER TABLE webhooks ADD COLUMN paused_at BIGINT",
        // A tenant's keys stay under the tenant's id.
        "ALTER TABLE idempotency_keys RENAME COLUMN tenant_id TO scope",
    ],
    down: &[
        "ALTER TABLE idempotency_keys RENAME COLUMN scope TO tenant_id",
        "ALTER TABLE webhooks DROP COLUMN paused_at",
    ],
};
