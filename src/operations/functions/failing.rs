//! Functions that fail often.

use dikala_entities::{AgentId, FunctionId, Millis, TenantId};
use sea_orm::{ConnectionTrait, DbErr, FromQueryResult, Statement};

/// Functions that are checked.
const FUNCTIONS_MAX: i64 = 50;
/// A function is reported if [`FAILURES_MIN`] of its latest `LATEST_CALLS` calls within a day failed.
const LATEST_CALLS: i64 = 10;
const FAILURES_MIN: i64 = 3;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A function that fails often.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct FailingFunction {
    pub id: FunctionId,
    pub agent_id: AgentId,
    pub name: String,
    /// Failures among its latest calls.
    pub failed: i64,
}

/// At most `most` functions of a tenant that often failed lately. Per function the query reads at most [`LATEST_CALLS`] rows of an
/// index.
pub async fn failing(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    now: Millis,
    most: u64,
) -> Result<Vec<FailingFunction>, DbErr> {
    let sql = "SELECT id, agent_id, name, failed FROM \
               (SELECT f.id, f.agent_id, f.name, (SELECT COUNT(*) FROM \
                (SELECT i.fault FROM invocations i WHERE i.function_id = f.id AND i.created_at >= $2 \
                 ORDER BY i.created_at DESC LIMIT $3) AS latest WHERE latest.fault IS NOT NULL) AS failed \
                FROM functions f JOIN agents a ON a.id = f.agent_id WHERE a.tenant_id = $1 \
                ORDER BY f.id DESC LIMIT $4) AS counted \
               WHERE failed >= $5 ORDER BY failed DESC, id LIMIT $6";
    let values = [
        tenant.into(),
        now.plus_ms(-DAY_MS).into(),
        LATEST_CALLS.into(),
        FUNCTIONS_MAX.into(),
        FAILURES_MIN.into(),
        i64::try_from(most).unwrap_or(i64::MAX).into(),
    ];
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    FailingFunction::find_by_statement(statement).all(db).await
}
