//! Telephony bridges and their tokens. A token is shown once; only its hash is kept.

use std::collections::{HashMap, HashSet};

use dikala_actors::nodes::all as all_nodes;
use dikala_entities::{
    AuditAction, BRIDGE_TOKEN_SCHEME, BridgeId, Credential, Millis, Secret, bridge,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ConnectionTrait, DbErr, EntityTrait, FromQueryResult,
    IntoActiveModel, QueryOrder, QuerySelect, Select, Statement,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    OperationContext, OperationWrite, PageRange,
    list::{lists, rows},
    name,
};
use crate::{
    audit::{AuditChange, ChangeOrigin},
    http::{
        answer::{Created, NoContent},
        error::{ApiError, Missing},
        extract::{Id, OperatorQuery, RequestBody, boolean},
        route::OPERATORS_BASE,
    },
    pages::form::{Fields, Shape},
};

/// The input of [`create`].
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"name": "sip-1"}))]
pub struct BridgeInput {
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    /// True for a bridge that may report calls from browsers, which call an agent and no number.
    #[schema(nullable, default = false)]
    web: bool,
}

/// The fields of [`BridgeInput`] in a form.
pub const FIELDS: &Fields = &[("name", Shape::Text)];

/// A bridge's row.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BridgeView {
    pub id: BridgeId,
    pub name: String,
    /// It may report calls from browsers.
    pub web: bool,
    pub created_at: Millis,
    pub last_seen_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
}

impl From<bridge::Model> for BridgeView {
    fn from(row: bridge::Model) -> Self {
        Self {
            id: row.id,
            name: row.name,
            web: row.is_web,
            created_at: row.created_at,
            last_seen_at: row.last_seen_at,
            revoked_at: row.revoked_at,
        }
    }
}

/// A bridge as it is now.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Bridge, example = json!({
    "id": "br_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "sip-1", "web": false, "createdAt": "2026-01-15T03:30:00.000Z",
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
    "token": "dkb_itGFjPev5uqCbxkB2DaILNaDNuKIjZ4V0ZmN", "id": "br_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "sip-1", "web": false,
    "createdAt": "2026-01-15T03:30:00.000Z", "lastSeenAt": null, "revokedAt": null, "connected": false, "calls": 0
}))]
pub struct CreatedBridge {
    token: String,
    #[serde(flatten)]
    #[schema(inline)]
    pub bridge: BridgeStatus,
}

impl CreatedBridge {
    pub fn secret(&self) -> Secret {
        Secret::new(self.token.as_str())
    }
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

/// The number of running calls per bridge. The order is that of an index on such calls, so that both
/// databases use it.
async fn held(db: &impl ConnectionTrait) -> Result<HashMap<BridgeId, i64>, DbErr> {
    let sql = "SELECT bridge_id, COUNT(*) AS calls FROM (SELECT bridge_id FROM calls \
               WHERE outcome IS NULL ORDER BY owner, id LIMIT 10000) AS live GROUP BY bridge_id";
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let held = BridgeCalls::find_by_statement(statement).all(db).await?;
    Ok(held
        .into_iter()
        .map(|held| (held.bridge_id, held.calls))
        .collect())
}

/// The nodes whose connections count, where this process is none.
async fn living_nodes(db: &impl ConnectionTrait) -> Result<HashSet<String>, DbErr> {
    let nodes = all_nodes(db).await?.into_iter();
    let living = nodes.filter(|node| node.lease_until > node.now);
    Ok(living.map(|node| node.id).collect())
}

/// Adds to rows what is known of their connections and calls.
async fn statuses(
    context: &OperationContext,
    rows: Vec<bridge::Model>,
) -> Result<Vec<BridgeStatus>, DbErr> {
    let db = context.store().api_reader();
    let held = held(db).await?;
    let here = context.bridges();
    let living = match here {
        Some(_) => HashSet::new(),
        None => living_nodes(db).await?,
    };
    let status = |row: bridge::Model| {
        let id = row.id;
        let mut connected = row.node.as_ref().is_some_and(|node| living.contains(node));
        let mut view = BridgeView::from(row);
        if let Some(here) = here {
            connected = here.is_connected(id);
            // The time in memory is newer than the stored one.
            let seen = Some(here.last_seen(id)).filter(|at| *at > Millis::MIN);
            view.last_seen_at = view.last_seen_at.max(seen);
        }
        BridgeStatus {
            connected,
            calls: held.get(&id).copied().unwrap_or(0),
            view,
        }
    };
    Ok(rows.into_iter().map(status).collect())
}

fn every() -> Select<bridge::Entity> {
    bridge::Entity::find().order_by_asc(bridge::Column::Id)
}

/// A page of bridges.
pub async fn list(context: OperationContext, query: OperatorQuery) -> Result<BridgeList, ApiError> {
    let page = query.0.read(&[], |form| Some(PageRange::read(form)))?;
    let (rows, has_more) = rows(context.store().api_reader(), page, every()).await?;
    let bridges = statuses(&context, rows).await?;
    Ok(BridgeList::new(page, bridges, has_more))
}

/// All bridges, oldest first.
pub async fn all(context: OperationContext) -> Result<Vec<BridgeStatus>, ApiError> {
    let rows = every().all(context.store().reader()).await?;
    Ok(statuses(&context, rows).await?)
}

/// One bridge.
pub async fn show(context: OperationContext, id: Id<BridgeId>) -> Result<BridgeStatus, ApiError> {
    let found = bridge::Entity::find_by_id(id.0);
    let found = found.one(context.store().api_reader()).await?;
    let mut found = statuses(&context, found.into_iter().collect()).await?;
    found.pop().ok_or(ApiError::NotFound(Missing::Bridge))
}

/// One bridge that is not revoked.
pub async fn show_valid(
    context: OperationContext,
    id: Id<BridgeId>,
) -> Result<BridgeStatus, ApiError> {
    let bridge = show(context, id).await?;
    match bridge.view.revoked_at {
        None => Ok(bridge),
        Some(_) => Err(ApiError::NotFound(Missing::Bridge)),
    }
}

/// Creates a bridge.
pub async fn create(
    context: OperationContext,
    body: RequestBody,
) -> Result<Created<CreatedBridge>, ApiError> {
    let input = body.form()?.read(&[], |form| {
        let name = form.required("name", None, name);
        let web = form.defaulted("web", None, false, boolean);
        Some(BridgeInput { name: name?, web })
    })?;
    let token = BRIDGE_TOKEN_SCHEME.generate();
    let write = context.begin().await?;
    let row = insert(
        &*write,
        input.name,
        input.web,
        &token,
        &context.origin,
        context.now,
    )
    .await?;
    let path = format!("{OPERATORS_BASE}/bridges/{}", row.id);
    let created = CreatedBridge {
        token: token.expose().to_owned(),
        bridge: BridgeStatus {
            view: row.into(),
            connected: false,
            calls: 0,
        },
    };
    write.commit(Created::at(path, created).secret()).await
}

/// Inserts a bridge's row with its audit entry.
pub async fn insert(
    txn: &impl ConnectionTrait,
    name: String,
    is_web: bool,
    token: &Credential,
    origin: &ChangeOrigin,
    now: Millis,
) -> Result<bridge::Model, DbErr> {
    let row = bridge::Model {
        id: BridgeId::new(now),
        name,
        is_web,
        hash: token.hash(),
        created_at: now,
        last_seen_at: None,
        node: None,
        connected_at: None,
        revoked_at: None,
    };
    bridge::Entity::insert(row.clone().into_active_model())
        .exec_without_returning(txn)
        .await?;
    let change = AuditChange::new(AuditAction::BridgeCreate, row.id).with(&row.name);
    origin.write(txn, None, change, now).await?;
    Ok(row)
}

/// Revokes a bridge's token: it is refused from now on, and its sockets are closed within seconds. A repeat changes nothing.
pub async fn revoke(context: OperationContext, id: Id<BridgeId>) -> Result<BridgeView, ApiError> {
    let mut write = context.begin().await?;
    let (bridge, _) = set_revoked(&mut write, id.0).await?;
    write.commit(bridge).await
}

/// The same for `DELETE`, whose repeat finds nothing.
pub async fn delete(
    context: OperationContext,
    id: Id<BridgeId>,
) -> Result<NoContent<BridgeView>, ApiError> {
    let mut write = context.begin().await?;
    match set_revoked(&mut write, id.0).await? {
        (bridge, true) => write.commit(NoContent(bridge)).await,
        (_, false) => Err(ApiError::NotFound(Missing::Bridge)),
    }
}

/// The bridge, and true if it was active before.
async fn set_revoked(
    write: &mut OperationWrite<'_>,
    id: BridgeId,
) -> Result<(BridgeView, bool), ApiError> {
    let found = bridge::Entity::find_by_id(id).lock_exclusive();
    let found = found.one(&**write).await?;
    let mut bridge = found.ok_or(ApiError::NotFound(Missing::Bridge))?;
    let is_new = bridge.revoked_at.is_none();
    if is_new {
        bridge.revoked_at = Some(write.context.now);
        let mut row = bridge.clone().into_active_model();
        row.revoked_at = Set(bridge.revoked_at);
        row.update(&**write).await?;
        let change = AuditChange::new(AuditAction::BridgeRevoke, id).with(&bridge.name);
        write.record(None, change).await?;
    }
    Ok((bridge.into(), is_new))
}
