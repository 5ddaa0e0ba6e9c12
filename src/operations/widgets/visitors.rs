//! The visitors of websites: who may see a widget, and the tokens of their calls.
//!
//! A call counts for its visitor for an hour after it began. A token that is not used yet counts until it is too old, and one whose
//! call the service refused is forgotten. So a visitor cannot have more calls than allowed by asking for many tokens at once, and
//! loses nothing by a call that never began.

use std::net::IpAddr;

use dikala_entities::{
    AgentId, CalleeNumber, Millis, OfTenant, Store, WIDGET_SCHEME, WidgetId, web_call, widget,
};
use sea_orm::{
    ConnectionTrait, DbErr, EntityTrait, FromQueryResult, IntoActiveModel, QuerySelect, Statement,
    Value,
};
use sha2::{Digest, Sha256};

use super::super::web_calls::{self, WebCallToken, WidgetCalls};
use crate::http::error::ApiError;

const HOUR_MS: i64 = 60 * 60 * 1_000;
/// A token can be used once the agent takes calls, and the tenant has minutes for one.
const IS_READY: &str = "SELECT 1 AS one FROM agents a JOIN tenants t ON t.id = a.tenant_id \
    JOIN credit_accounts c ON c.tenant_id = t.id \
    WHERE a.id = $1 AND a.is_active AND t.suspended_at IS NULL AND c.available > 0";
const OF_VISITOR: &str = "SELECT COUNT(*) AS calls, MIN(COALESCE(used_at + 3600000, expires_at)) AS next_at FROM web_calls \
    WHERE widget_id = $1 AND visitor = $2 AND (used_at > $3 OR (used_at IS NULL AND expires_at > $4))";
/// The unused tokens of one visitor hold one place: otherwise a single one could take all places without a call. So there may be
/// more tokens than places, and each needs a place when it is used.
const UNUSED: &str = "SELECT COUNT(DISTINCT visitor) AS calls FROM web_calls \
    WHERE widget_id = $1 AND used_at IS NULL AND expires_at > $2";

/// The reason why a visitor gets no call.
#[derive(Debug)]
pub enum VisitorRefusal {
    /// No widget has this key.
    Unknown,
    /// The widget is not for this website.
    Origin,
    /// The visitor had as many calls as allowed; seconds until the next one.
    Often(i64),
    /// As many visitors talk as allowed.
    Busy,
    /// The agent takes no calls now, or the tenant has no minutes.
    Closed,
    Failed(ApiError),
}

impl From<DbErr> for VisitorRefusal {
    fn from(error: DbErr) -> Self {
        Self::Failed(error.into())
    }
}

/// The widget with this key, if this website may show it.
pub async fn find(store: &Store, key: &str, origin: &str) -> Result<widget::Model, VisitorRefusal> {
    // A mistyped key costs no query.
    WIDGET_SCHEME.parse(key).ok_or(VisitorRefusal::Unknown)?;
    let found = widget::Entity::with_key(key);
    let found = found.one(store.api_reader()).await?;
    let widget = found.ok_or(VisitorRefusal::Unknown)?;
    match widget.origins().iter().any(|known| known == origin) {
        true => Ok(widget),
        false => Err(VisitorRefusal::Origin),
    }
}

#[derive(Debug, FromQueryResult)]
struct VisitorCalls {
    calls: i64,
    /// The time at which one of them counts no more.
    next_at: Option<Millis>,
}

/// The hash that stands for a visitor's address in the database.
fn hashed(widget: WidgetId, address: IpAddr) -> String {
    let digest = Sha256::new()
        .chain_update(widget.to_string())
        .chain_update(address.to_string())
        .finalize();
    hex::encode(digest)
}

/// The token of a call by a widget. `base` is the prefix of links to this service.
pub async fn call(
    store: &Store,
    base: &str,
    widget: &widget::Model,
    address: IpAddr,
    now: Millis,
) -> Result<WebCallToken, VisitorRefusal> {
    let visitor = hashed(widget.id, address);
    // Refused visitors must not cause a write.
    admit(store.reader(), widget, &visitor, now).await?;
    let txn = store.begin().await?;
    // The row's lock makes visitors of one widget come one after the other, so that their counts are exact.
    let row = widget::Entity::one_of(widget.tenant_id, widget.id).lock_exclusive();
    let widget = row.one(&txn).await?.ok_or(VisitorRefusal::Unknown)?;
    admit(&txn, &widget, &visitor, now).await?;
    let agent = (widget.tenant_id, widget.agent_id);
    let (token, blank) =
        WebCallToken::new(base, agent, CalleeNumber::WEB, now).map_err(VisitorRefusal::Failed)?;
    let row = web_call::Model {
        widget_id: Some(widget.id),
        visitor: Some(visitor),
        ..blank
    };
    web_call::Entity::insert(row.into_active_model())
        .exec_without_returning(&txn)
        .await?;
    txn.commit().await?;
    Ok(token)
}

/// Fails unless this visitor may call now.
async fn admit(
    db: &impl ConnectionTrait,
    widget: &widget::Model,
    visitor: &str,
    now: Millis,
) -> Result<(), VisitorRefusal> {
    if !is_ready(db, widget.agent_id).await? {
        return Err(VisitorRefusal::Closed);
    }
    if let Some(seconds) = waits(db, widget, visitor, now).await? {
        return Err(VisitorRefusal::Often(seconds));
    }
    let unused = statement(db, UNUSED, [widget.id.into(), now.into()]);
    let unused = WidgetCalls::find_by_statement(unused).one(db).await?;
    let unused = unused.map_or(0, |count| count.calls);
    match web_calls::begun(db, widget, now).await? + unused < widget.max_concurrent {
        true => Ok(()),
        false => Err(VisitorRefusal::Busy),
    }
}

async fn is_ready(db: &impl ConnectionTrait, agent: AgentId) -> Result<bool, DbErr> {
    let look = statement(db, IS_READY, [agent.into()]);
    Ok(db.query_one_raw(look).await?.is_some())
}

/// Seconds until the visitor's next call; none if it is allowed now.
async fn waits(
    db: &impl ConnectionTrait,
    widget: &widget::Model,
    visitor: &str,
    now: Millis,
) -> Result<Option<i64>, DbErr> {
    let since = now.plus_ms(-HOUR_MS);
    let values = [widget.id.into(), visitor.into(), since.into(), now.into()];
    let count = VisitorCalls::find_by_statement(statement(db, OF_VISITOR, values));
    let count = count.one(db).await?;
    let over = count.filter(|count| count.calls >= widget.calls_per_visitor);
    Ok(over.map(|count| {
        let left = count.next_at.unwrap_or(now).since(now);
        left.saturating_add(999).div_euclid(1_000).max(1)
    }))
}

fn statement<const N: usize>(
    db: &impl ConnectionTrait,
    sql: &str,
    values: [Value; N],
) -> Statement {
    Statement::from_sql_and_values(db.get_database_backend(), sql, values)
}
