//! What the operators' API needs: webhooks that wait, and idempotency keys that are not a tenant's.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "ALTER TABLE webhooks ADD COLUMN paused_at BIGINT",
        // A tenant's keys are under the tenant's id, as they were.
        "ALTER TABLE idempotency_keys RENAME COLUMN tenant_id TO scope",
    ],
    down: &[
        "ALTER TABLE idempotency_keys RENAME COLUMN scope TO tenant_id",
        "ALTER TABLE webhooks DROP COLUMN paused_at",
    ],
};
