CREATE UNIQUE INDEX calls_bridge_call ON calls (bridge_id, bridge_call_id);
CREATE INDEX calls_running ON calls (owner, id) WHERE outcome IS NULL