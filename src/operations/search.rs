//! Finds what an operator looks for by an id, a number or a part of a tenant's name. Indexes answer all but the names of tenants.

use dikala_entities::{
    AgentId, ApiKeyId, BridgeId, CallId, CallerNumber, DeliveryId, EventId, Millis, PhoneNumber,
    PhoneNumberId, RequestId, TenantId, UserId, WebhookId, agent, api_key, audit, bridge, call,
    delivery, event, phone_number, tenant, user, webhook,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};

use super::{OperationContext, calls::callers::CallerPart, tenants::matching, webhooks::health};
use crate::audit::AuditQuery;

/// Shown finds of each kind.
pub const EACH_MAX: usize = 10;
/// Fewest digits of a caller's whole number.
const CALLER_DIGITS_MIN: usize = 8;
/// The audit entry of a request is looked for from this long before its id was made until this long after it.
const REQUEST_BEFORE_MS: i64 = 60 * 1_000;
const REQUEST_AFTER_MS: i64 = 2 * 60 * 1_000;
/// Audit entries of that time that are looked at.
const ENTRIES_MAX: u64 = 10_000;

/// Something that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchHit {
    Tenant(TenantId, String),
    Call(CallId, TenantId),
    /// A number of a tenant.
    Number(PhoneNumberId, TenantId, PhoneNumber),
    Bridge(BridgeId, String),
    /// With the address without query.
    Webhook(WebhookId, TenantId, String),
    Delivery(DeliveryId, TenantId),
    Agent(AgentId, TenantId, String),
    Key(ApiKeyId, TenantId, String),
    User(UserId, TenantId, String),
    /// An event of a call.
    Event(EventId, CallId, TenantId),
    /// A request that changed something at this time.
    Request(RequestId, Millis),
    /// A whole number of a caller. Its calls were not looked for.
    Caller(CallerNumber),
}

impl SearchHit {
    /// The tenant that it belongs to.
    pub const fn tenant(&self) -> Option<TenantId> {
        match self {
            Self::Call(_, tenant)
            | Self::Number(_, tenant, _)
            | Self::Webhook(_, tenant, _)
            | Self::Delivery(_, tenant)
            | Self::Agent(_, tenant, _)
            | Self::Key(_, tenant, _)
            | Self::User(_, tenant, _)
            | Self::Event(_, _, tenant) => Some(*tenant),
            Self::Tenant(..) | Self::Bridge(..) | Self::Request(..) | Self::Caller(_) => None,
        }
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchResult {
    pub hits: Vec<SearchHit>,
    /// More numbers or tenants match than are shown.
    pub has_more: bool,
}

/// Looks for a text.
pub async fn search(context: &OperationContext, text: &str) -> Result<SearchResult, DbErr> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(SearchResult::default());
    }
    if let Some(id) = SearchedId::read(text) {
        let hits = id.find(context).await?.into_iter().collect();
        return Ok(SearchResult {
            hits,
            has_more: false,
        });
    }
    let (mut hits, mut has_more) = (Vec::new(), false);
    let db = context.store().api_reader();
    if let Some(Ok(number)) = CallerPart::read(text) {
        (hits, has_more) = numbers(context, db, &number).await?;
    }
    let most = u64::try_from(EACH_MAX).unwrap_or(u64::MAX) + 1;
    let tenants = matching(Some(text)).limit(most).all(db).await?;
    has_more |= tenants.len() > EACH_MAX;
    let tenants = tenants.into_iter().take(EACH_MAX);
    hits.extend(tenants.map(|row| SearchHit::Tenant(row.id, row.name)));
    Ok(SearchResult { hits, has_more })
}

/// The numbers of tenants that begin with these digits, and the caller with the whole
/// number, if it can be one and no number of a tenant begins like that.
async fn numbers(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    typed: &CallerPart,
) -> Result<(Vec<SearchHit>, bool), DbErr> {
    let (mut rows, mut has_more): (Vec<phone_number::Model>, bool) = (Vec::new(), false);
    let most = u64::try_from(EACH_MAX).unwrap_or(u64::MAX) + 1;
    for digits in typed.starts() {
        let begins = format!("+{digits}");
        // Digits sort before letters, so this is above every number that begins like that.
        let end = format!("{begins}z");
        let found = context
            .rows::<phone_number::Entity>()
            .filter(phone_number::Column::Did.gte(begins))
            .filter(phone_number::Column::Did.lt(end))
            .order_by_asc(phone_number::Column::Did)
            .limit(most)
            .all(db)
            .await?;
        has_more |= found.len() > EACH_MAX;
        rows.extend(found.into_iter().take(EACH_MAX));
    }
    let starts = typed.starts();
    let whole = starts
        .last()
        .filter(|digits| digits.len() >= CALLER_DIGITS_MIN);
    let caller: Option<CallerNumber> = whole.and_then(|digits| format!("+{digits}").parse().ok());
    let caller = caller.filter(|_| rows.is_empty());
    let number = |row: phone_number::Model| SearchHit::Number(row.id, row.tenant_id, row.did);
    let hits = rows.into_iter().map(number);
    Ok((
        hits.chain(caller.map(SearchHit::Caller)).collect(),
        has_more,
    ))
}

/// An id of any kind that a search knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchedId {
    Tenant(TenantId),
    Call(CallId),
    Number(PhoneNumberId),
    Bridge(BridgeId),
    Webhook(WebhookId),
    Delivery(DeliveryId),
    Agent(AgentId),
    Key(ApiKeyId),
    User(UserId),
    Event(EventId),
    Request(RequestId),
}

impl SearchedId {
    fn read(text: &str) -> Option<Self> {
        macro_rules! first {
            ($($kind:ident)*) => {
                $(if let Ok(id) = text.parse() { return Some(Self::$kind(id)); })*
            };
        }
        first!(Tenant Call Number Bridge Webhook Delivery Agent Key User Event Request);
        None
    }

    async fn find(self, context: &OperationContext) -> Result<Option<SearchHit>, DbErr> {
        let db = context.store().api_reader();
        /// The row with this key, if there is one, as what it is.
        macro_rules! row {
            ($table:ident, $id:expr, $hit:expr) => {
                context
                    .one_of::<$table::Entity>($id)
                    .one(db)
                    .await?
                    .map($hit)
            };
        }
        Ok(match self {
            Self::Tenant(id) => {
                let row = tenant::Entity::find_by_id(id).one(db).await?;
                row.map(|row| SearchHit::Tenant(row.id, row.name))
            }
            Self::Bridge(id) => {
                let row = bridge::Entity::find_by_id(id).one(db).await?;
                row.map(|row| SearchHit::Bridge(row.id, row.name))
            }
            Self::Call(id) => call_of(context, db, id).await?,
            Self::Event(id) => event_of(context, db, id).await?,
            Self::Request(id) => request(db, id).await?,
            Self::Number(id) => row!(phone_number, id, |row| {
                SearchHit::Number(row.id, row.tenant_id, row.did)
            }),
            Self::Webhook(id) => row!(webhook, id, |row| {
                let url = health::address(row.url.as_str()).to_owned();
                SearchHit::Webhook(row.id, row.tenant_id, url)
            }),
            Self::Delivery(id) => row!(delivery, id, |row| {
                SearchHit::Delivery(row.id, row.tenant_id)
            }),
            Self::Agent(id) => agent_of(context, db, id).await?,
            Self::Key(id) => row!(api_key, id, |row| {
                SearchHit::Key(row.id, row.tenant_id, row.name)
            }),
            Self::User(id) => row!(user, id, |row| {
                SearchHit::User(row.id, row.tenant_id, row.name)
            }),
        })
    }
}

async fn call_of(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    id: CallId,
) -> Result<Option<SearchHit>, DbErr> {
    let found: Option<(CallId, TenantId)> = context
        .one_of::<call::Entity>(id)
        .select_only()
        .columns([call::Column::Id, call::Column::TenantId])
        .into_tuple()
        .one(db)
        .await?;
    Ok(found.map(|(id, tenant)| SearchHit::Call(id, tenant)))
}

/// Without its prompt, which may be long.
async fn agent_of(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    id: AgentId,
) -> Result<Option<SearchHit>, DbErr> {
    let found: Option<(AgentId, TenantId, String)> = context
        .one_of::<agent::Entity>(id)
        .select_only()
        .columns([
            agent::Column::Id,
            agent::Column::TenantId,
            agent::Column::Name,
        ])
        .into_tuple()
        .one(db)
        .await?;
    Ok(found.map(|(id, tenant, name)| SearchHit::Agent(id, tenant, name)))
}

async fn event_of(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    id: EventId,
) -> Result<Option<SearchHit>, DbErr> {
    let found: Option<(Option<CallId>, TenantId)> = context
        .one_of::<event::Entity>(id)
        .select_only()
        .columns([event::Column::CallId, event::Column::TenantId])
        .into_tuple()
        .one(db)
        .await?;
    Ok(found.and_then(|(call, tenant)| Some(SearchHit::Event(id, call?, tenant))))
}

/// The request's audit entry, by the time in its id.
async fn request(db: &impl ConnectionTrait, id: RequestId) -> Result<Option<SearchHit>, DbErr> {
    let entries = AuditQuery {
        from: Some(id.time().plus_ms(-REQUEST_BEFORE_MS)),
        to: Some(id.time().plus_ms(REQUEST_AFTER_MS)),
        ..AuditQuery::default()
    };
    let entries: Vec<(Option<String>, Millis)> = entries
        .select()
        .select_only()
        .columns([audit::Column::RequestId, audit::Column::At])
        .limit(ENTRIES_MAX)
        .into_tuple()
        .all(db)
        .await?;
    let text = id.to_string();
    let of_request = |(request, _): &(Option<String>, Millis)| request.as_ref() == Some(&text);
    let found = entries.into_iter().find(of_request);
    Ok(found.map(|(_, at)| SearchHit::Request(id, at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_by_its_prefix() {
        let of = |prefix: &str| SearchedId::read(&format!("{prefix}_01k9zv3m8rj2q4w6y8a0c2e4g6"));
        assert!(matches!(of("call"), Some(SearchedId::Call(_))));
        assert!(matches!(of("ten"), Some(SearchedId::Tenant(_))));
        assert!(matches!(of("dlv"), Some(SearchedId::Delivery(_))));
        assert!(matches!(of("req"), Some(SearchedId::Request(_))));
        assert_eq!(of("mail"), None);
        assert_eq!(SearchedId::read("call_1"), None);
    }
}
