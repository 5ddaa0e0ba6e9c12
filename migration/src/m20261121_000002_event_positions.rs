//! Gives events a position in the order of their commits, so that a follower can resume. Ids cannot serve for that:
//! they are made before the commit, and two commits may overtake each other.
//!
//! Positions come from one row that a transaction locks until it ends. So they follow the order of commits and are
//! never reused, even after the newest events were swept.
//! never twice, also after the newest events were swept.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "ALTER TABLE events ADD COLUMN position BIGINT",
        "ALTER TABLE events ADD COLUMN is_test BOOLEAN NOT NULL DEFAULT FALSE",
        "UPDATE events SET is_test = TRUE WHERE id IN (SELECT event_id FROM deliveries WHERE is_test)",
        // Events committed so far can only be ordered by their ids.
        "UPDATE events SET position = numbered.place FROM \
     (SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS place FROM events WHERE NOT is_test) AS numbered \
     WHERE events.id = numbered.id",
        "CREATE TABLE event_positions (one BIGINT PRIMARY KEY CHECK (one = 1), last BIGINT NOT NULL)",
        "INSERT INTO event_positions (one, last) SELECT 1, COALESCE(MAX(position), 0) FROM events",
        "DROP INDEX events_tenant",
        "CREATE UNIQUE INDEX events_position ON events (tenant_id, position)",
    ],
    down: &[
        "DROP INDEX events_position",
        "CREATE INDEX events_tenant ON events (tenant_id, id)",
        "DROP TABLE event_positions",
        "ALTER TABLE events DROP COLUMN is_test",
        "ALTER TABLE events DROP COLUMN position",
    ],
};
