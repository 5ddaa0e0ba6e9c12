//! The audit log: each change with its author, time and address; also as a CSV file.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use actix_web::HttpResponse;
use dikala_entities::{
    Actor, ApiKeyId, AuditAction, AuditId, Millis, OfTenant, UserId, api_key, audit, user,
};
use futures_util::stream;
use maud::{Markup, html};
use sea_orm::{QueryOrder, QuerySelect};
use serde_json::Value;

use super::{
    components::{Field, empty, paging, table},
    csv::{self, CsvLine},
    filters::filters,
    form::{self, Fields, FormState, FormValues, Shape},
    layout,
    members::role_name,
    names,
    view::SignedIn,
};
use crate::{
    audit::AuditQuery,
    http::{
        error::ApiError,
        extract::{ParseResult, id, instant, word},
    },
    operations::{agents::fields as agents, numbers::NO_AGENT},
};

const PATH: &str = "/dashboard/audit";
const FIELDS: &Fields = &[
    ("actor", Shape::Optional),
    ("action", Shape::Optional),
    ("from", Shape::Optional),
    ("to", Shape::Optional),
    ("before", Shape::Optional),
];
/// The filters that the form offers.
const FILTERS: [&str; 4] = ["actor", "action", "from", "to"];
/// Entries on a page.
const PAGE: usize = 25;
/// Newest people, and newest keys, that the filter offers. The address can name any other.
const CHOICES_MAX: u64 = 20;
/// Entries per read of a file.
const BATCH: u64 = 500;
const COLUMNS: [&str; 9] = [
    "id",
    "at",
    "actor",
    "name",
    "action",
    "target",
    "detail",
    "address",
    "requestId",
];

/// Fields that a detail can name, with the ids of their labels. Those of agents are in their own table.
const LABELS: [(&str, &str); 12] = [
    ("description", "functions-description"),
    ("endpoint", "functions-endpoint"),
    ("method", "functions-method"),
    ("parameters", "functions-parameters"),
    ("url", "webhooks-url"),
    ("events", "webhooks-events"),
    ("agentId", "widgets-agent"),
    ("origins", "widgets-origins"),
    ("callsPerVisitorPerHour", "widgets-per-visitor"),
    ("maxConcurrent", "widgets-concurrent"),
    ("texts", "widgets-texts"),
    ("color", "widgets-color"),
];

/// The requested entries.
struct AuditPageQuery {
    entries: AuditQuery,
    before: Option<AuditId>,
}

impl AuditPageQuery {
    fn read(visit: &SignedIn, typed: &FormValues) -> Result<Self, ApiError> {
        // Days begin at the reader's midnight, and the last day is included.
        let zone = visit.zone();
        let from = |value: &Value| day(value, |text| zone.midnight(text));
        let to = |value: &Value| day(value, |text| zone.end_of_day(text));
        form::read(typed, FIELDS)?.read(&[], |form| {
            let entries = AuditQuery {
                tenant: Some(visit.tenant()),
                actor: form.optional("actor", None, id("an actor")),
                action: form.optional("action", None, word("an action")),
                from: form.optional("from", None, from),
                to: form.optional("to", None, to),
            };
            let before = form.optional("before", None, id("an entry"));
            Some(Self { entries, before })
        })
    }
}

/// Reads a date as its edge in the reader's zone, or a timestamp as the API does.
fn day(value: &Value, edge: impl Fn(&str) -> Option<Millis>) -> ParseResult<Millis> {
    let begin = value.as_str().and_then(edge);
    begin.map_or_else(|| instant(value), Ok)
}

/// Names of the authors of changes.
type Names = BTreeMap<Actor, String>;

/// Looks up the names of these authors.
pub(super) async fn names(
    visit: &SignedIn,
    actors: impl Iterator<Item = Actor>,
) -> Result<Names, ApiError> {
    let actors: BTreeSet<Actor> = actors.collect();
    let people = actors.iter().filter_map(|actor| match actor {
        Actor::User(id) => Some(*id),
        _ => None,
    });
    let keys = actors.iter().filter_map(|actor| match actor {
        Actor::Key(id) => Some(*id),
        _ => None,
    });
    let people = names::of_people(visit, people).await?;
    let keys = names::of_keys(visit, keys).await?;
    let people = people.into_iter().map(|(id, name)| (Actor::User(id), name));
    let keys = keys
        .into_iter()
        .map(|(id, name)| named_key(visit, id, name));
    let service = [
        (Actor::Operator, visit.t("audit-operator")),
        (Actor::Cli, visit.t("audit-cli")),
    ];
    Ok(people.chain(keys).chain(service).collect())
}

fn named_key(visit: &SignedIn, id: ApiKeyId, name: String) -> (Actor, String) {
    let name = visit.tn("audit-key", &[("name", name.into())]);
    (Actor::Key(id), name)
}

/// The authors that the filter offers, including the selected one.
async fn offered(visit: &SignedIn, chosen: Option<Actor>) -> Result<Names, ApiError> {
    let db = visit.store().api_reader();
    let people = user::Entity::of(visit.tenant())
        .select_only()
        .columns([user::Column::Id, user::Column::Name])
        .order_by_desc(user::Column::Id)
        .limit(CHOICES_MAX);
    let people: Vec<(UserId, String)> = people.into_tuple().all(db).await?;
    let keys = api_key::Entity::of(visit.tenant())
        .select_only()
        .columns([api_key::Column::Id, api_key::Column::Name])
        .order_by_desc(api_key::Column::Id)
        .limit(CHOICES_MAX);
    let keys: Vec<(ApiKeyId, String)> = keys.into_tuple().all(db).await?;
    let mut offered = names(visit, chosen.into_iter()).await?;
    offered.extend(people.into_iter().map(|(id, name)| (Actor::User(id), name)));
    let keys = keys
        .into_iter()
        .map(|(id, name)| named_key(visit, id, name));
    offered.extend(keys);
    Ok(offered)
}

/// `GET /dashboard/audit`
pub async fn show(visit: SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let title = visit.t("audit-title");
    let asked = match AuditPageQuery::read(&visit, &typed) {
        Ok(asked) => asked,
        Err(error) => {
            let offered = offered(&visit, None).await?;
            let content = filter(&visit, &FormState::again(typed, error)?, &offered);
            return Ok(layout::refused(&visit, &title, content));
        }
    };
    let db = visit.store().api_reader();
    let one_more = u64::try_from(PAGE).unwrap_or(u64::MAX) + 1;
    let mut rows = asked.entries.page(db, asked.before, one_more).await?;
    let has_more = rows.len() > PAGE;
    rows.truncate(PAGE);
    let last = rows.last().map(|last| last.id).filter(|_| has_more);
    let older = last.map(|last| address(PATH, &typed, Some(last)));
    let newer = asked.before.map(|_| address(PATH, &typed, None));
    let file = address("/dashboard/audit.csv", &typed, None);
    let names = names(&visit, rows.iter().map(|row| row.actor)).await?;
    let things = names::of_things(&visit, &mentioned(&rows)).await?;
    let offered = offered(&visit, asked.entries.actor).await?;
    let filled = FormState::with(FILTERS.map(|name| (name, typed.text(name).unwrap_or_default())));
    let content = html! {
        p.lead { (visit.t("audit-words")) }
        (filter(&visit, &filled, &offered))
        @if rows.is_empty() {
            (empty(&visit.t("audit-none"), &visit.t("audit-none-words"), html! {}))
        } @else {
            (entry_table(&visit, &rows, &names, &things))
            p.way { a href=(file) download { (visit.t("audit-csv")) } }
        }
        (paging(&visit, newer.as_deref(), older.as_deref()))
    };
    Ok(layout::page(&visit, &title, content))
}

/// An address with the same filters.
fn address(path: &str, typed: &FormValues, before: Option<AuditId>) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for name in FILTERS {
        if let Some(text) = typed.text(name).filter(|text| !text.is_empty()) {
            query.append_pair(name, text);
        }
    }
    if let Some(before) = before {
        query.append_pair("before", &before.to_string());
    }
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

fn filter(visit: &SignedIn, filled: &FormState, offered: &Names) -> Markup {
    let anybody = (String::new(), visit.t("audit-anybody"));
    let actors = offered
        .iter()
        .map(|(actor, name)| (actor.to_string(), names::choice(name)));
    let anything = (String::new(), visit.t("audit-anything"));
    let actions = AuditAction::ALL
        .iter()
        .filter(|action| is_tenants(**action));
    let actions = actions.map(|action| (action.as_str().to_owned(), said(visit, *action)));
    let actors = std::iter::once(anybody).chain(actors).collect();
    let actions = std::iter::once(anything).chain(actions).collect();
    let choices = [
        Field::select("actor", visit.t("audit-who"), actors),
        Field::select("action", visit.t("audit-what"), actions),
        Field::date("from", visit.t("audit-from")),
        Field::date("to", visit.t("audit-to")),
    ];
    filters(visit, PATH, filled, &choices, Some("page-filter-none"))
}

/// False for bridges and the secrets key, which belong to the service: no tenant has entries about them.
const fn is_tenants(action: AuditAction) -> bool {
    !matches!(
        action,
        AuditAction::BridgeCreate | AuditAction::BridgeRevoke | AuditAction::SecretsRotate
    )
}

/// The ids in entries: of what was changed, and in the details.
fn mentioned(rows: &[audit::Model]) -> BTreeSet<&str> {
    rows.iter()
        .flat_map(|row| row.detail.split(' ').chain([row.target.as_str()]))
        .collect()
}

/// The detail of a change, with the labels of its fields.
fn told(visit: &SignedIn, row: &audit::Model, things: &HashMap<String, String>) -> Markup {
    use AuditAction as Action;
    let is_list = matches!(
        row.action,
        Action::AgentUpdate | Action::FunctionUpdate | Action::WebhookUpdate | Action::WidgetUpdate
    );
    let part = |part: &str| match part.split_once('=') {
        Some(("isActive", on)) => {
            let on = if on == "true" { "page-yes" } else { "page-no" };
            html! { (visit.t("agents-active")) ": " (visit.t(on)) }
        }
        _ => match label(part) {
            Some(id) => html! { (visit.t(id)) },
            None => html! { code { (part) } },
        },
    };
    let role = row
        .detail
        .rsplit_once(", role=")
        .filter(|_| row.action == Action::UserRole);
    let role = role.and_then(|(name, role)| Some((name, role.parse().ok()?)));
    html! {
        @if let Some((name, role)) = role { (name) ", " (visit.t("members-role")) ": " (role_name(visit, role)) }
        @else if is_list {
            @for (nth, text) in row.detail.split(", ").enumerate() { @if nth > 0 { ", " } (part(text)) }
        } @else { (detail(row, things)) }
    }
}

/// The id of a field's label.
fn label(name: &str) -> Option<&'static str> {
    let of_agent = agents::FIELDS.iter().find(|field| field.name == name);
    let of_others = LABELS.iter().find(|(field, _)| *field == name);
    of_agent
        .map(|field| field.label)
        .or(of_others.map(|(_, label)| *label))
}

/// A detail with the present names of ids.
fn detail(row: &audit::Model, things: &HashMap<String, String>) -> String {
    let named = |word: &str| match things.get(word) {
        Some(name) => format!("{} ({word})", names::choice(name)),
        None => word.to_owned(),
    };
    let words: Vec<String> = row.detail.split(' ').map(named).collect();
    words.join(" ")
}

fn entry_table(
    visit: &SignedIn,
    rows: &[audit::Model],
    names: &Names,
    things: &HashMap<String, String>,
) -> Markup {
    let columns = [
        "audit-what",
        "audit-on-what",
        "audit-who",
        "audit-when",
        "audit-where",
    ];
    let row = |row: &audit::Model| {
        vec![
            html! { (said_of(visit, row)) },
            html! {
                (target(row, things))
                @if !row.detail.is_empty() && !is_unassignment(row) { br; span.muted { (told(visit, row, things)) } }
            },
            html! {
                @match names.get(&row.actor) {
                    Some(name) => { (name) }
                    None => { (visit.t("audit-former")) br; code { (row.actor) } }
                }
            },
            visit.time(row.at),
            html! { (row.address.as_deref().unwrap_or("–")) },
        ]
    };
    table(
        visit,
        &visit.t("audit-title"),
        &columns.map(|id| visit.t(id)),
        rows.iter().map(row).collect(),
    )
}

/// The changed thing, linked if it has a page.
fn target(row: &audit::Model, things: &HashMap<String, String>) -> Markup {
    let page = match row.action {
        AuditAction::AgentCreate | AuditAction::AgentUpdate | AuditAction::ChatCreate => {
            Some("agents")
        }
        AuditAction::WebhookCreate
        | AuditAction::WebhookUpdate
        | AuditAction::WebhookRotateSecret
        | AuditAction::WebhookRecover
        | AuditAction::WebhookPause
        | AuditAction::WebhookResume => Some("webhooks"),
        AuditAction::WidgetCreate | AuditAction::WidgetUpdate => Some("widgets"),
        AuditAction::DeliveryResend => Some("deliveries"),
        AuditAction::CallHangup | AuditAction::CallTransfer => Some("calls"),
        AuditAction::KeyCreate | AuditAction::KeyRevoke => Some("settings/keys"),
        _ => None,
    };
    let name = things.get(&row.target);
    let shown = match name {
        Some(name) => html! { (names::choice(name)) },
        None => html! { code { (row.target) } },
    };
    html! {
        @if let Some(page) = page {
            a href={ "/dashboard/" (page) "/" (row.target) } { (shown) }
        } @else {
            (shown)
        }
        @if name.is_some() { br; code.muted { (row.target) } }
    }
}

/// The change in words.
fn said_of(visit: &SignedIn, row: &audit::Model) -> String {
    match is_unassignment(row) {
        true => visit.t("audit-number-unassign"),
        false => said(visit, row.action),
    }
}

/// A number was assigned to no agent.
fn is_unassignment(row: &audit::Model) -> bool {
    row.action == AuditAction::NumberAssign && row.detail == NO_AGENT
}

/// The action in words.
fn said(visit: &SignedIn, action: AuditAction) -> String {
    visit.t(match action {
        AuditAction::AgentCreate => "audit-agent-create",
        AuditAction::AgentUpdate => "audit-agent-update",
        AuditAction::AgentDelete => "audit-agent-delete",
        AuditAction::FunctionCreate => "audit-function-create",
        AuditAction::FunctionUpdate => "audit-function-update",
        AuditAction::FunctionDelete => "audit-function-delete",
        AuditAction::WebhookCreate => "audit-webhook-create",
        AuditAction::WebhookUpdate => "audit-webhook-update",
        AuditAction::WebhookDelete => "audit-webhook-delete",
        AuditAction::WebhookRotateSecret => "audit-webhook-rotate-secret",
        AuditAction::WebhookRecover => "audit-webhook-recover",
        AuditAction::WebhookPause => "audit-webhook-pause",
        AuditAction::WebhookResume => "audit-webhook-resume",
        AuditAction::DeliveryResend => "audit-delivery-resend",
        AuditAction::ChatCreate => "audit-chat-create",
        AuditAction::WidgetCreate => "audit-widget-create",
        AuditAction::WidgetUpdate => "audit-widget-update",
        AuditAction::WidgetDelete => "audit-widget-delete",
        AuditAction::CallHangup => "audit-call-hangup",
        AuditAction::CallTransfer => "audit-call-transfer",
        AuditAction::CallErase => "audit-call-erase",
        AuditAction::CallShowNumbers => "audit-call-show-numbers",
        AuditAction::NumberCreate => "audit-number-create",
        AuditAction::NumberUpdate => "audit-number-update",
        AuditAction::NumberAssign => "audit-number-assign",
        AuditAction::NumberDelete => "audit-number-delete",
        AuditAction::KeyCreate => "audit-key-create",
        AuditAction::KeyRevoke => "audit-key-revoke",
        AuditAction::UserCreate => "audit-user-create",
        AuditAction::UserRole => "audit-user-role",
        AuditAction::UserName => "audit-user-name",
        AuditAction::UserRemove => "audit-user-remove",
        AuditAction::UserLink => "audit-user-link",
        AuditAction::UserPassword => "audit-user-password",
        AuditAction::UserSignIn => "audit-user-sign-in",
        AuditAction::UserSignOutEverywhere => "audit-user-sign-out-everywhere",
        AuditAction::FunctionSecretShow => "audit-function-secret-show",
        AuditAction::FunctionSecretRotate => "audit-function-secret-rotate",
        AuditAction::CreditAdd => "audit-credit-add",
        AuditAction::TenantCreate => "audit-tenant-create",
        AuditAction::TenantUpdate => "audit-tenant-update",
        AuditAction::TenantSuspend => "audit-tenant-suspend",
        AuditAction::TenantResume => "audit-tenant-resume",
        AuditAction::BridgeCreate => "audit-bridge-create",
        AuditAction::BridgeRevoke => "audit-bridge-revoke",
        AuditAction::SecretsRotate => "audit-secrets-rotate",
        AuditAction::ProblemSnooze => "audit-problem-snooze",
        AuditAction::ProblemShow => "audit-problem-show",
    })
}

/// `GET /dashboard/audit.csv`: all entries that match the filters, newest first.
pub async fn file(visit: SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let AuditPageQuery { entries, before } = AuditPageQuery::read(&visit, &typed)?;
    let first = Some((entries, before));
    let reader = visit.clone();
    let pieces = stream::try_unfold(first, move |next| {
        let visit = reader.clone();
        async move {
            let Some((entries, before)) = next else {
                return Ok(None);
            };
            let rows = entries.page(visit.store().api_reader(), before, BATCH);
            let rows = rows.await?;
            let names = names(&visit, rows.iter().map(|row| row.actor)).await?;
            let is_full = u64::try_from(rows.len()).is_ok_and(|count| count == BATCH);
            let lines: String = rows.iter().map(|row| line(row, &names)).collect();
            let last = rows.last().map(|last| last.id).filter(|_| is_full);
            let next = last.map(|last| (entries, Some(last)));
            Ok(Some((lines, next)))
        }
    });
    csv::answer(&visit, "audit", &COLUMNS, pieces)
}

fn line(row: &audit::Model, names: &Names) -> String {
    CsvLine::new()
        .text(&row.id.to_string())
        .text(&row.at.to_string())
        .text(&row.actor.to_string())
        .maybe(names.get(&row.actor))
        .text(row.action.as_str())
        .text(&row.target)
        .text(&row.detail)
        .maybe(row.address.as_deref())
        .maybe(row.request_id.as_deref())
        .end()
}
