//! `/bridges`: telephony bridges, their connections and numbers of calls.

use std::collections::{HashMap, HashSet};

use actix_web::web::Data;
use dikala_actors::nodes::all as all_nodes;
use dikala_entities::{BridgeId, Millis, bridge};
use sea_orm::{ConnectionTrait, DbErr, EntityTrait, FromQueryResult, QuerySelect, Statement};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    desk::{OperatorContext, OperatorUnit},
    list::{lists, rows},
    refused::{name_of, refused},
};
use crate::{
    admin::bridges::{self, BridgeView},
    api::PageRange,
    http::{
        answer::ApiAnswer,
        error::{ApiError, Missing},
        extract::{FormFields, Id, OperatorQuery, OperatorRequest, RequestBody},
        route::OPERATORS_BASE,
    },
};

/// A bridge that is to be made.
#[expect(dead_code, reason = "the description of what is read field by field")]
#[derive(Clone, Debug, ToSchema)]
#[schema(as = BridgeInput, example = json!({"name": "sip-1"}))]
pub struct BridgeDraft {
    #[schema(min_length = 1, max_length = 120)]
    pub name: String,
}

/// A bridge as it is now.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Bridge, example = json!({
    "id": "br_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "sip-1", "createdAt": "2026-01-15T03:30:00.000Z",
    "lastSeenAt": "2026-01-15T03:31:00.000Z", "revokedAt": null, "connected": true, "calls": 12
}))]
pub struct BridgeStatus {
    #[serde(flatten)]
    #[schema(inline)]
    pub view: BridgeView,
    /// True if it has an open socket at any node. The state at other nodes is a few seconds old.
    pub connected: bool,
    /// Calls that are not over; 10,000 are counted at most.
    pub calls: i64,
}

/// A bridge that was just made: the only time that its token is shown.
// Not `Debug`: it holds a credential in the clear.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = NewBridge, example = json!({
    "token": "dkb_itGFjPev5uqCbxkB2DaILNaDNuKIjZ4V0ZmN", "id": "br_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "sip-1",
    "createdAt": "2026-01-15T03:30:00.000Z", "lastSeenAt": null, "revokedAt": null, "connected": false, "calls": 0
}))]
pub struct CreatedBridge {
    token: String,
    #[serde(flatten)]
    #[schema(inline)]
    bridge: BridgeStatus,
}

lists! {
    /// A page of bridges, oldest first.
    BridgeList { bridges: BridgeStatus, "bridges" }
}

#[derive(FromQueryResult)]
struct BridgeCalls {
    bridge_id: BridgeId,
    calls: i64,
}

/// The number of running calls per bridge. The order is that of a partial index on such calls, so that both
/// databases use it.
async fn held(db: &impl ConnectionTrait) -> Result<HashMap<BridgeId, i64>, DbErr> {
    let sql = "SELECT bridge_id, COUNT(*) AS calls FROM (SELECT bridge_id FROM calls \
               WHERE status IN ('ringing', 'answered') ORDER BY owner, id LIMIT 10000) AS live GROUP BY bridge_id";
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let held = BridgeCalls::find_by_statement(statement).all(db).await?;
    Ok(held
        .into_iter()
        .map(|held| (held.bridge_id, held.calls))
        .collect())
}

/// All bridges, oldest first, as the nodes reported them a few seconds ago; for programs that are no node.
pub async fn stored_bridges(db: &impl ConnectionTrait) -> Result<Vec<BridgeStatus>, DbErr> {
    let alive: HashSet<String> = all_nodes(db)
        .await?
        .into_iter()
        .filter(|node| node.lease_until > node.now)
        .map(|node| node.id)
        .collect();
    let held = held(db).await?;
    let bridges = bridges::every().all(db).await?;
    let as_stored = |row: bridge::Model| BridgeStatus {
        connected: row.node.as_ref().is_some_and(|node| alive.contains(node)),
        calls: held.get(&row.id).copied().unwrap_or(0),
        view: row.into(),
    };
    Ok(bridges.into_iter().map(as_stored).collect())
}

/// `GET /bridges`
pub async fn list(
    desk: Data<OperatorContext>,
    filters: OperatorQuery,
) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(&page(&desk, &filters.0).await?))
}

pub async fn page(desk: &OperatorContext, asked: &FormFields) -> Result<BridgeList, ApiError> {
    let page = asked.read(&[], |form| Some(PageRange::read(form)))?;
    let db = desk.node.store.api_reader();
    let (rows, has_more) = rows(db, page, bridges::every()).await?;
    let held = held(db).await?;
    let bridges = rows
        .into_iter()
        .map(|row| shown(desk, row, &held))
        .collect();
    Ok(BridgeList::new(page, bridges, has_more))
}

/// `GET /bridges/{id}`
pub async fn show(desk: Data<OperatorContext>, id: Id<BridgeId>) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(&one(&desk, id.0).await?))
}

/// One bridge, or 404.
pub async fn one(desk: &OperatorContext, id: BridgeId) -> Result<BridgeStatus, ApiError> {
    let db = desk.node.store.api_reader();
    let found = bridge::Entity::find_by_id(id).one(db).await?;
    let row = found.ok_or(ApiError::NotFound(Missing::Bridge))?;
    Ok(shown(desk, row, &held(db).await?))
}

fn shown(
    desk: &OperatorContext,
    row: bridge::Model,
    held: &HashMap<BridgeId, i64>,
) -> BridgeStatus {
    let (id, here) = (row.id, &desk.node.bridges);
    let mut view = BridgeView::from(row);
    // The time in memory is newer than the stored one.
    let seen = Some(here.last_seen(id).at).filter(|at| *at > Millis::MIN);
    view.last_seen_at = view.last_seen_at.max(seen);
    BridgeStatus {
        connected: here.is_connected(id),
        calls: held.get(&id).copied().unwrap_or(0),
        view,
    }
}

/// `POST /bridges`
pub async fn create(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let name = body
        .form()?
        .read(&[], |form| form.required("name", None, name_of))?;
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let made = bridges::create(unit.txn(), &name, &operator.origin, desk.now()).await;
    let made = made.map_err(refused)?;
    let made = CreatedBridge {
        token: made.token,
        bridge: BridgeStatus {
            view: made.view,
            connected: false,
            calls: 0,
        },
    };
    let path = format!("{OPERATORS_BASE}/bridges/{}", made.bridge.view.id);
    unit.commit(ApiAnswer::created_at(path, &made).secret())
        .await
}

/// `DELETE /bridges/{id}`: its token is refused from now on, and its sockets are closed. What is revoked stays in the list.
pub async fn revoke(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<BridgeId>,
) -> Result<ApiAnswer, ApiError> {
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let found = bridge::Entity::find_by_id(id.0).lock_exclusive();
    let found = found.one(unit.txn()).await?;
    if found.is_none_or(|bridge| bridge.revoked_at.is_some()) {
        return Err(ApiError::NotFound(Missing::Bridge));
    }
    let revoked = bridges::revoke(unit.txn(), id.0, &operator.origin, desk.now()).await;
    revoked.map_err(refused)?;
    unit.commit(ApiAnswer::no_content()).await
}
