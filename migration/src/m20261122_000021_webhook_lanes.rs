//! Lanes: the node that delivers to each webhook. So the owner of a delivery does not depend on a node's clock, and
//! due times follow the order of commits, whichever node commits.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE TABLE webhook_lanes (webhook_id TEXT NOT NULL PRIMARY KEY, node TEXT NOT NULL)",
        "CREATE INDEX webhook_lanes_node ON webhook_lanes (node)",
        "ALTER TABLE event_positions ADD COLUMN node TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE event_positions ADD COLUMN stamped_at BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE deliveries DROP COLUMN lease_until",
    ],
    down: &[
        "ALTER TABLE deliveries ADD COLUMN lease_until BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE event_positions DROP COLUMN stamped_at",
        "ALTER TABLE event_positions DROP COLUMN node",
        "DROP TABLE webhook_lanes",
    ],
};
