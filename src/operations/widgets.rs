//! Widgets: buttons for websites, by which a visitor calls an agent from the browser.
//!
//! The key of a widget stands in the pages of websites. It is good for one thing: to ask for the [token](visitors) of a call, from the
//! widget's origins, within its limits, while the tenant has minutes.

pub mod visitors;

use std::collections::BTreeMap;

use dikala_entities::{
    AgentId, AuditAction, Millis, OfTenant, TenantId, WIDGET_SCHEME, WidgetId, tenant, widget,
};
use sea_orm::{
    ActiveModelTrait, EntityTrait, IntoActiveModel, PaginatorTrait, QueryOrder, QuerySelect,
};
use serde::Serialize;
use serde_json::Value;
use url::Url;
use utoipa::ToSchema;

use super::{OperationContext, OperationWrite, agents, name};
use crate::{
    audit::AuditChange,
    http::{
        answer::{Created, NoContent},
        error::{ApiError, Missing},
        extract::{
            FormFields, FormReader, Id, ParseResult, RequestBody, integer, line, list, not_allowed,
            object, string,
        },
        field::{FieldCode, ValueFault},
        route::BASE,
    },
};

/// Read-only fields: accepted and ignored in requests, so that a client can send back what it read.
pub const READ_ONLY: &[&str] = &["id", "key", "createdAt", "updatedAt"];
/// Widgets per tenant.
pub const WIDGETS_MAX: usize = 20;
/// Origins per widget.
pub const ORIGINS_MAX: usize = 20;
/// Calls of one visitor within an hour, and simultaneous calls.
const CALLS_MAX: i64 = 100;
const CALLS_DEFAULT: i64 = 5;
/// Characters of a text.
pub const TEXT_CHARS_MAX: usize = 200;
/// The texts of a widget that can be replaced.
pub const TEXTS: [&str; 17] = [
    "start",
    "notice",
    "connecting",
    "ready",
    "end",
    "ended",
    "lost",
    "refused",
    "missing",
    "press",
    "limit",
    "unavailable",
    "caller",
    "agent",
    "title",
    "level",
    "log",
];

/// A widget, as it is created and changed.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = WidgetInput, rename_all = "camelCase", example = json!({
    "name": "Online shop", "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "origins": ["https://shop.example.com"],
    "callsPerVisitorPerHour": 5, "maxConcurrent": 5, "texts": {"start": "Ask about an order"}, "color": "#0f766e"
}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct WidgetInput {
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    agent_id: AgentId,
    /// The websites that may show it, such as `https://shop.example.com`.
    #[schema(min_items = 1, max_items = 20)]
    origins: Vec<String>,
    /// Calls from one network address within an hour.
    #[schema(required = false, nullable, minimum = 1, maximum = 100, default = 5)]
    calls_per_visitor_per_hour: i64,
    /// Simultaneous calls by this widget.
    #[schema(required = false, nullable, minimum = 1, maximum = 100, default = 5)]
    max_concurrent: i64,
    /// Texts in place of the built-in ones, by their names.
    #[schema(required = false, nullable)]
    texts: BTreeMap<String, String>,
    /// The colour of the button, as `#rrggbb`.
    #[schema(required = false, pattern = "^#[0-9a-fA-F]{6}$")]
    color: Option<String>,
}

/// A button for websites.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "wgt_01k9zv3m8rj2q4w6y8a0c2e4g6", "key": "dkw_itGFjPev5uqCbxkB2DaILNaDNuKIjZ2QYp3v", "name": "Online shop",
    "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "origins": ["https://shop.example.com"], "callsPerVisitorPerHour": 5,
    "maxConcurrent": 5, "texts": {"start": "Ask about an order"}, "color": "#0f766e",
    "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct Widget {
    pub id: WidgetId,
    /// Public: it stands in the pages of the websites.
    pub key: String,
    pub name: String,
    pub agent_id: AgentId,
    pub origins: Vec<String>,
    pub calls_per_visitor_per_hour: i64,
    pub max_concurrent: i64,
    pub texts: BTreeMap<String, String>,
    #[schema(required = true)]
    pub color: Option<String>,
    pub created_at: Millis,
    updated_at: Millis,
}

impl From<widget::Model> for Widget {
    fn from(row: widget::Model) -> Self {
        Self {
            origins: row.origins(),
            texts: row.texts(),
            id: row.id,
            key: row.key,
            name: row.name,
            agent_id: row.agent_id,
            calls_per_visitor_per_hour: row.calls_per_visitor,
            max_concurrent: row.max_concurrent,
            color: row.color,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// An origin as browsers write it: scheme, host and port. Browsers give the microphone to no page over http, except on this machine.
fn origin(value: &Value) -> ParseResult<String> {
    let given = string(value)?.trim();
    let fault = |predicate: &str, sentence| {
        ValueFault::new(FieldCode::InvalidFormat, predicate).in_words(sentence)
    };
    let url = Url::parse(given);
    let url = url.map_err(|_| {
        let predicate = "must be an address such as https://shop.example.com, without a path";
        fault(predicate, "fault-origin")
    })?;
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let is_secure = url.scheme() == "https" || (url.scheme() == "http" && is_local);
    if !is_secure {
        let predicate = "must begin with https://; browsers give the microphone to no other pages, except those on localhost";
        return Err(fault(predicate, "fault-origin-insecure").into());
    }
    let is_bare = url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    // The origin stands in a header of the frame.
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter);
    let is_host = url
        .host_str()
        .is_some_and(|host| host.chars().all(is_plain));
    if !is_bare || !is_host {
        let predicate =
            "must be scheme, name and port alone, such as https://shop.example.com: no path, no *";
        return Err(fault(predicate, "fault-origin").into());
    }
    Ok(url.origin().ascii_serialization())
}

fn origins(value: &Value) -> ParseResult<Vec<String>> {
    let is_empty = value.as_array().is_some_and(Vec::is_empty);
    let required = |fault: ValueFault| fault.in_words("fault-required");
    let origins = list(1, origin, String::eq)(value).map_err(|faults| match is_empty {
        // The form has a text area for them, in which nothing can be chosen.
        true => faults.into_iter().map(required).collect(),
        false => faults,
    })?;
    if origins.len() > ORIGINS_MAX {
        let predicate = format!("must have at most {ORIGINS_MAX} items");
        let fault = ValueFault::new(FieldCode::TooLong, predicate);
        let fault = fault.bounded(ORIGINS_MAX as i64);
        return Err(fault.in_words("fault-too-many-origins").into());
    }
    Ok(origins)
}

fn texts(value: &Value) -> ParseResult<BTreeMap<String, String>> {
    let (mut texts, mut faults) = (BTreeMap::new(), Vec::new());
    for (name, value) in object(value)? {
        let known = TEXTS.contains(&name.as_str());
        let parsed = match known {
            true => line(TEXT_CHARS_MAX)(&value),
            false => Err(not_allowed(&name, "a text of a widget", TEXTS.into_iter()).into()),
        };
        match parsed {
            Ok(text) => drop(texts.insert(name, text)),
            Err(inner) => {
                let at = format!(".{}", name.chars().take(40).collect::<String>());
                faults.extend(inner.into_iter().map(|fault| fault.inside(&at)));
            }
        }
    }
    match faults.is_empty() {
        true => Ok(texts),
        false => Err(faults),
    }
}

fn color(value: &Value) -> ParseResult<String> {
    let given = string(value)?;
    let digits = given.strip_prefix('#').unwrap_or_default();
    match digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(given.to_ascii_lowercase()),
        false => {
            let predicate = "must be # and six hexadecimal digits, such as #0f766e";
            let fault = ValueFault::new(FieldCode::InvalidFormat, predicate);
            Err(fault.in_words("fault-color").into())
        }
    }
}

/// A malformed id is treated like an unknown agent.
fn agent_id(value: &Value) -> ParseResult<Option<AgentId>> {
    Ok(string(value)?.parse().ok())
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts are JSON")
}

/// The fields of a widget, on top of its present ones. The agent is checked apart.
fn read(
    form: &FormFields,
    present: Option<&widget::Model>,
    blank: widget::Model,
) -> Result<(widget::Model, Option<AgentId>), ApiError> {
    let read = |form: &mut FormReader<'_>| {
        let name = form.required("name", present.map(|it| it.name.clone()), name);
        let agent = form.required("agentId", present.map(|it| Some(it.agent_id)), agent_id);
        let known = present.map(widget::Model::origins);
        let origins = form.required("origins", known, origins);
        let calls = integer(1, CALLS_MAX);
        let known = present.map(|it| it.calls_per_visitor);
        let calls_per_visitor =
            form.defaulted("callsPerVisitorPerHour", known, CALLS_DEFAULT, &calls);
        let known = present.map(|it| it.max_concurrent);
        let max_concurrent = form.defaulted("maxConcurrent", known, CALLS_DEFAULT, &calls);
        let known = present.map(widget::Model::texts);
        let texts = form.defaulted("texts", known, BTreeMap::new(), texts);
        let known = present.and_then(|it| it.color.clone());
        let color = form.optional("color", known, color);
        let row = widget::Model {
            name: name?,
            origins: json(&origins?),
            calls_per_visitor,
            max_concurrent,
            texts: json(&texts),
            color,
            ..blank
        };
        Some((row, agent?))
    };
    form.read(READ_ONLY, read)
}

/// Fails if the tenant has as many widgets as it can have. Counts under the tenant's row lock, so that two concurrent requests cannot
/// both take the last place.
async fn make_room(write: &OperationWrite<'_>, tenant: TenantId) -> Result<(), ApiError> {
    let row = tenant::Entity::find_by_id(tenant).lock_exclusive();
    row.one(&**write).await?;
    let count = widget::Entity::of(tenant).count(&**write).await?;
    match usize::try_from(count).is_ok_and(|count| count < WIDGETS_MAX) {
        true => Ok(()),
        false => Err(ApiError::WidgetLimitReached(WIDGETS_MAX)),
    }
}

/// The principal's widgets, oldest first.
pub async fn all(context: &OperationContext) -> Result<Vec<widget::Model>, ApiError> {
    let rows = context.rows::<widget::Entity>();
    let rows = rows.order_by_asc(widget::Column::Id);
    Ok(rows.all(context.store().api_reader()).await?)
}

pub async fn find(context: &OperationContext, id: WidgetId) -> Result<widget::Model, ApiError> {
    let found = context.one_of::<widget::Entity>(id);
    let found = found.one(context.store().api_reader()).await?;
    found.ok_or(ApiError::NotFound(Missing::Widget))
}

async fn lock(write: &OperationWrite<'_>, id: WidgetId) -> Result<widget::Model, ApiError> {
    let found = write.context.one_of::<widget::Entity>(id).lock_exclusive();
    let found = found.one(&**write).await?;
    found.ok_or(ApiError::NotFound(Missing::Widget))
}

/// Creates a widget.
pub async fn create(
    context: OperationContext,
    body: RequestBody,
) -> Result<Created<Widget>, ApiError> {
    let (tenant, now) = (context.tenant()?, context.now);
    let blank = widget::Model {
        id: WidgetId::new(now),
        tenant_id: tenant,
        agent_id: AgentId::new(now),
        name: String::new(),
        key: WIDGET_SCHEME.generate().expose().to_owned(),
        origins: String::new(),
        calls_per_visitor: CALLS_DEFAULT,
        max_concurrent: CALLS_DEFAULT,
        texts: String::new(),
        color: None,
        created_at: now,
        updated_at: now,
    };
    let (mut row, agent) = read(&body.form()?, None, blank)?;
    let mut write = context.begin().await?;
    make_room(&write, tenant).await?;
    row.agent_id = agents::chosen(&write, agent).await?;
    widget::Entity::insert(row.clone().into_active_model())
        .exec_without_returning(&*write)
        .await?;
    let change = AuditChange::new(AuditAction::WidgetCreate, row.id).with(&row.name);
    write.record(tenant, change).await?;
    let path = format!("{BASE}/widgets/{}", row.id);
    write.commit(Created::at(path, row.into())).await
}

/// One widget.
pub async fn show(context: OperationContext, id: Id<WidgetId>) -> Result<Widget, ApiError> {
    find(&context, id.0).await.map(Widget::from)
}

/// Changes a widget; its websites notice when they are opened again.
pub async fn update(
    context: OperationContext,
    id: Id<WidgetId>,
    body: RequestBody,
) -> Result<Widget, ApiError> {
    find(&context, id.0).await?;
    let form = body.patch()?;
    let mut write = context.begin().await?;
    let before = lock(&write, id.0).await?;
    let (mut row, agent) = read(&form, Some(&before), before.clone())?;
    if agent != Some(before.agent_id) {
        row.agent_id = agents::chosen(&write, agent).await?;
    }
    if row == before {
        return Ok(row.into());
    }
    row.updated_at = context.now;
    let change = AuditChange::new(AuditAction::WidgetUpdate, row.id).fields(&[
        ("name", row.name != before.name),
        ("agentId", row.agent_id != before.agent_id),
        ("origins", row.origins != before.origins),
        (
            "callsPerVisitorPerHour",
            row.calls_per_visitor != before.calls_per_visitor,
        ),
        ("maxConcurrent", row.max_concurrent != before.max_concurrent),
        ("texts", row.texts != before.texts),
        ("color", row.color != before.color),
    ]);
    let changed = row.clone().into_active_model().reset_all();
    changed.update(&*write).await?;
    write.record(row.tenant_id, change).await?;
    write.commit(row.into()).await
}

/// Deletes a widget: its button vanishes, and calls that run go on.
pub async fn delete(
    context: OperationContext,
    id: Id<WidgetId>,
) -> Result<NoContent<WidgetId>, ApiError> {
    let mut write = context.begin().await?;
    let row = lock(&write, id.0).await?;
    widget::Entity::delete_by_id(row.id).exec(&*write).await?;
    let change = AuditChange::new(AuditAction::WidgetDelete, row.id).with(&row.name);
    write.record(row.tenant_id, change).await?;
    write.commit(NoContent(row.id)).await
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::plain("https://shop.example.com", Ok("https://shop.example.com"))]
    #[case::slash("https://shop.example.com/", Ok("https://shop.example.com"))]
    #[case::capitals(" HTTPS://Shop.Example.com", Ok("https://shop.example.com"))]
    #[case::usual_port("https://shop.example.com:443", Ok("https://shop.example.com"))]
    #[case::port("https://shop.example.com:8443", Ok("https://shop.example.com:8443"))]
    #[case::international("https://toko-é.example", Ok("https://xn--toko--fsa.example"))]
    #[case::local("http://localhost:3000", Ok("http://localhost:3000"))]
    #[case::plain_http("http://shop.example.com", Err("https://"))]
    #[case::looks_local("http://localhost.example.com", Err("https://"))]
    #[case::path("https://shop.example.com/a", Err("no path"))]
    #[case::query("https://shop.example.com?a", Err("no path"))]
    #[case::user("https://a@shop.example.com", Err("no path"))]
    #[case::any("https://*.example.com", Err("no path"))]
    #[case::more_policy("https://a.example;sandbox", Err("no path"))]
    #[case::injected("https://shop.example.com; script-src *", Err("must be"))]
    #[case::two("https://a.example https://b.example", Err("must be"))]
    #[case::name("shop.example.com", Err("must be an address"))]
    #[case::null("null", Err("must be an address"))]
    #[case::script("javascript:alert(1)", Err("https://"))]
    fn origins_are_as_browsers_write_them(
        #[case] given: &str,
        #[case] expected: Result<&str, &str>,
    ) {
        let found = origin(&json!(given));
        match expected {
            Ok(expected) => assert_eq!(found.expect("an origin"), expected),
            Err(words) => {
                let faults = found.expect_err("a fault");
                let error = faults.into_iter().next().expect("one").in_field("origins");
                assert!(error.message.contains(words), "{}", error.message);
            }
        }
    }

    #[test]
    fn colours_and_texts_are_checked() {
        assert_eq!(color(&json!("#0F766e")).expect("one"), "#0f766e");
        for wrong in ["", "#fff", "red", "#0f766g", "#0f766e;", "é#fffff"] {
            assert!(color(&json!(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(
            texts(&json!({"start": " Go "})).expect("texts")["start"],
            "Go"
        );
        for wrong in [
            json!({"strat": "Go"}),
            json!({"start": ""}),
            json!({"start": "Go\nend\tStop"}),
            json!([]),
        ] {
            assert!(texts(&wrong).is_err(), "{wrong}");
        }
    }
}
