//! Tokens for calls from browsers. A token is good once, for a minute; only its hash is kept.

use dikala_entities::{
    AgentId, CalleeNumber, CallerNumber, Credential, CredentialHash, Millis, OfTenant, PhoneNumber,
    Store, TenantId, WEB_CALL_SCHEME, WidgetId, store::Transaction, web_call, widget,
};
use sea_orm::{
    ConnectionTrait, DbErr, EntityTrait, FromQueryResult, IntoActiveModel, QuerySelect, Statement,
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    OperationContext, Principal,
    agents::{self, draft::SavedAgent},
};
use crate::http::{
    answer::Created,
    error::ApiError,
    extract::{Id, RequestBody, e164},
};

/// The path of the WebSocket.
pub const PATH: &str = "/web/v1/call";
/// The time in which a token can be used.
const GOOD_MS: i64 = 60_000;
/// Unused tokens of a tenant; older ones are forgotten.
const UNUSED_MAX: i64 = 200;
const FORGET: &str = "DELETE FROM web_calls WHERE tenant_id = $1 AND used_at IS NULL AND widget_id IS NULL AND hash NOT IN \
                      (SELECT hash FROM web_calls WHERE tenant_id = $1 AND used_at IS NULL AND widget_id IS NULL \
                      ORDER BY expires_at DESC LIMIT $2)";
/// The time after its use in which a token's draft is kept for the call.
const KEPT_MS: i64 = 10 * 60_000;
/// The time after its use in which a widget's token counts: longer than a call can last.
const COUNTED_MS: i64 = 5 * 60 * 60_000;
/// The time from the use of a token until its call is stored, at most.
const OPENING_MS: i64 = 5_000;
/// Calls of a widget that run or are about to. Running calls are few, tokens of hours are many: each running call looks up its own.
const BEGUN: &str = "SELECT \
    (SELECT COUNT(*) FROM web_calls WHERE widget_id = $1 AND used_at > $2) + \
    (SELECT COUNT(*) FROM calls c WHERE c.tenant_id = $3 AND c.outcome IS NULL AND EXISTS \
     (SELECT 1 FROM web_calls w WHERE w.hash = c.bridge_call_id AND w.widget_id = $1 AND w.used_at <= $2)) AS calls";

/// The condition of a token that can be used, at the time of the second parameter.
const IS_GOOD: &str = "hash = $1 AND used_at IS NULL AND expires_at > $2 AND \
    (maker IS NULL OR EXISTS (SELECT 1 FROM users WHERE id = maker) OR \
     EXISTS (SELECT 1 FROM api_keys WHERE id = maker AND revoked_at IS NULL))";

/// A call from a browser that is about to begin.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = WebCallInput, rename_all = "camelCase", example = json!({"callerNumber": "+6281234567890"}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct WebCallInput {
    /// The caller's number, as the agent and its functions are told it.
    #[schema(required = false)]
    pub caller_number: Option<PhoneNumber>,
    /// Changes of the agent that are tried and not saved: the fields of `PATCH /agents/{id}`.
    #[schema(required = false, value_type = Object)]
    pub draft: Option<Map<String, Value>>,
}

/// A token for one call from a browser.
// Not `Debug`: it holds a credential in the clear.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebCallToken, example = json!({
    "token": "wct_itGFjPev5uqCbxkB2DaILNaDNuKIjZ4V0ZmN",
    "url": "wss://voice.example.com/web/v1/call?token=wct_itGFjPev5uqCbxkB2DaILNaDNuKIjZ4V0ZmN",
    "expiresAt": "2026-01-15T03:31:00.000Z"
}))]
pub struct WebCallToken {
    token: String,
    /// The WebSocket of the call.
    url: String,
    pub expires_at: Millis,
}

impl WebCallToken {
    /// A new token of an agent, and its row, which is not stored yet.
    pub(super) fn new(
        base: &str,
        agent: (TenantId, AgentId),
        caller: &str,
        now: Millis,
    ) -> Result<(Self, web_call::Model), ApiError> {
        let token = WEB_CALL_SCHEME.generate();
        let caller = CallerNumber::try_from(caller.to_owned());
        let row = web_call::Model {
            hash: token.hash(),
            tenant_id: agent.0,
            agent_id: agent.1,
            caller_number: caller.map_err(|_| ApiError::Internal)?,
            settings: None,
            is_detailed: false,
            expires_at: now.plus_ms(GOOD_MS),
            used_at: None,
            widget_id: None,
            visitor: None,
            maker: None,
        };
        let created = Self {
            url: format!("{}{PATH}?token={}", sockets(base), token.expose()),
            token: token.expose().to_owned(),
            expires_at: row.expires_at,
        };
        Ok((created, row))
    }
}

/// Makes a token. Its call shows functions by their names alone: it may be for a customer.
pub async fn create(
    context: OperationContext,
    id: Id<AgentId>,
    body: RequestBody,
) -> Result<Created<WebCallToken>, ApiError> {
    make(context, id, body, false).await
}

/// Makes a token for a member of the tenant, whose call shows all of its functions.
pub async fn create_detailed(
    context: OperationContext,
    id: Id<AgentId>,
    body: RequestBody,
) -> Result<Created<WebCallToken>, ApiError> {
    make(context, id, body, true).await
}

async fn make(
    context: OperationContext,
    id: Id<AgentId>,
    body: RequestBody,
    is_detailed: bool,
) -> Result<Created<WebCallToken>, ApiError> {
    let agent = agents::find(context.store().api_reader(), context.tenant()?, id.0).await?;
    let named = (agent.tenant_id, agent.id);
    let saved = SavedAgent::read(context.store(), agent, context.agent_limits()?).await?;
    let (caller, tried) = body.optional_form()?.read(&[], |form| {
        let caller: Option<PhoneNumber> = form.optional("callerNumber", None, e164);
        Some((caller, saved.draft_of_call(form)))
    })?;
    let settings = tried.map(|tried| saved.settings(tried)).transpose()?;
    let caller = caller.as_ref().map_or(CalleeNumber::WEB, |it| it.as_str());
    let (token, blank) = WebCallToken::new(context.base(), named, caller, context.now)?;
    let row = web_call::Model {
        settings,
        is_detailed,
        maker: maker(context.principal),
        ..blank
    };
    let write = context.begin().await?;
    web_call::Entity::insert(row.into_active_model())
        .exec_without_returning(&*write)
        .await?;
    let forget = Statement::from_sql_and_values(
        context.store().backend(),
        FORGET,
        [named.0.into(), UNUSED_MAX.into()],
    );
    write.execute_raw(forget).await?;
    write
        .commit(Created::at(PATH.to_owned(), token).secret())
        .await
}

fn maker(principal: Principal) -> Option<String> {
    match principal {
        Principal::TenantKey { key, .. } => Some(key.to_string()),
        Principal::Person { user, .. } => Some(user.to_string()),
        Principal::Operator | Principal::CommandLine => None,
    }
}

/// The scheme of WebSockets in place of that of pages.
fn sockets(base: &str) -> String {
    match base.split_once("://") {
        Some(("https", rest)) => format!("wss://{rest}"),
        Some((_, rest)) => format!("ws://{rest}"),
        None => base.to_owned(),
    }
}

/// The purpose of a token.
#[derive(Debug, FromQueryResult)]
pub struct UsedToken {
    pub hash: CredentialHash,
    tenant_id: TenantId,
    widget_id: Option<WidgetId>,
    pub agent_id: AgentId,
    pub caller_number: CallerNumber,
    pub is_detailed: bool,
}

/// True if a token can be used. It writes nothing, so strangers who guess cost no more than that.
pub async fn is_good(store: &Store, token: &Credential, now: Millis) -> Result<bool, DbErr> {
    let sql = format!("SELECT 1 AS one FROM web_calls WHERE {IS_GOOD}");
    let values = [token.hash().into(), now.into()];
    let look = Statement::from_sql_and_values(store.backend(), sql, values);
    let found = store.critical_reader().query_one_raw(look).await?;
    Ok(found.is_some())
}

/// The reason why a token cannot be used.
#[derive(Debug)]
pub enum TokenFault {
    /// It is unknown, used or too old, or its maker is gone.
    Unknown,
    /// As many visitors of its widget talk as allowed. It can be used later.
    Busy,
    Failed(DbErr),
}

impl From<DbErr> for TokenFault {
    fn from(error: DbErr) -> Self {
        Self::Failed(error)
    }
}

/// The number of calls of a widget.
#[derive(Debug, FromQueryResult)]
pub struct WidgetCalls {
    pub calls: i64,
}

/// The calls by a widget that run or are about to.
pub async fn begun(
    db: &impl ConnectionTrait,
    widget: &widget::Model,
    now: Millis,
) -> Result<i64, DbErr> {
    let opening = now.plus_ms(-OPENING_MS);
    let values = [widget.id.into(), opening.into(), widget.tenant_id.into()];
    let count = Statement::from_sql_and_values(db.get_database_backend(), BEGUN, values);
    let count = WidgetCalls::find_by_statement(count).one(db).await?;
    Ok(count.map_or(0, |count| count.calls))
}

/// True if a call by this widget may go on whose token was just used in this transaction. The widget's row stays locked, so that
/// the tokens of its visitors are counted one after the other.
async fn has_place(
    txn: &Transaction,
    (tenant, widget): (TenantId, WidgetId),
    now: Millis,
) -> Result<bool, DbErr> {
    let row = widget::Entity::one_of(tenant, widget).lock_exclusive();
    match row.one(txn).await? {
        Some(widget) => Ok(begun(txn, &widget, now).await? <= widget.max_concurrent),
        None => Ok(false),
    }
}

/// Uses a token up.
pub async fn take(store: &Store, token: &Credential, now: Millis) -> Result<UsedToken, TokenFault> {
    let txn = store.begin().await?;
    let sql = format!(
        "UPDATE web_calls SET used_at = $2, expires_at = CASE WHEN widget_id IS NULL THEN CAST($3 AS BIGINT) ELSE CAST($4 AS BIGINT) END \
         WHERE {IS_GOOD} RETURNING hash, tenant_id, widget_id, agent_id, caller_number, is_detailed"
    );
    let (kept, counted) = (now.plus_ms(KEPT_MS), now.plus_ms(COUNTED_MS));
    let values = [token.hash().into(), now.into(), kept.into(), counted.into()];
    let take = Statement::from_sql_and_values(store.backend(), sql, values);
    let taken = UsedToken::find_by_statement(take).one(&txn).await?;
    let taken = taken.ok_or(TokenFault::Unknown)?;
    if let Some(widget) = taken.widget_id
        && !has_place(&txn, (taken.tenant_id, widget), now).await?
    {
        return Err(TokenFault::Busy);
    }
    txn.commit().await?;
    Ok(taken)
}

/// Removes a used token whose call was refused, so that it does not count for its visitor.
pub async fn forget(store: &Store, hash: &CredentialHash) -> Result<(), DbErr> {
    let token = web_call::Entity::delete_by_id(hash.clone());
    token.exec(store.writer()).await.map(drop)
}
