-- A call moves from the first table to the second in the statement that ends it. The first has few indexes, and none contains a
-- column that messages change: PostgreSQL would otherwise write an entry into every index. Half of each of its pages is kept for
-- new row versions, because the rows of a page change together. The checks let PostgreSQL leave out the other table.
--
-- No index can span both tables. So the ring's own statement looks whether its bridge's id of the call exists. The second table has
-- no unique index of it: the end of a call must never fail.
CREATE TABLE running_calls PARTITION OF calls (PRIMARY KEY (id), CHECK (outcome IS NULL))
    FOR VALUES IN ('ringing', 'answered') {growing_and_changing_often};
CREATE TABLE ended_calls PARTITION OF calls (PRIMARY KEY (id), CHECK (outcome IS NOT NULL))
    DEFAULT {growing_and_changing};
CREATE UNIQUE INDEX running_calls_bridge_call ON running_calls (bridge_id, bridge_call_id);
CREATE INDEX running_calls_owner ON running_calls (owner, id);
CREATE INDEX running_calls_tenant ON running_calls (tenant_id, started_at DESC, id DESC);
CREATE INDEX running_calls_agent_version ON running_calls (agent_id, agent_version);
CREATE INDEX ended_calls_bridge_call ON ended_calls (bridge_id, bridge_call_id)