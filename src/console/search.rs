//! The search of the console: leads to what was found, or lists it.

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::{figures::TenantNames, layout, view::ConsoleView};
use crate::{
    http::error::ApiError,
    operations::search::{self, SearchHit, SearchResult},
    pages::{
        components::{Field, empty, short_id},
        form::{FormState, FormValues},
    },
};

pub const PATH: &str = "/search";
/// Longest text that is looked for, in characters.
const CHARS_MAX: usize = 200;

/// `GET /search?q=`: a single find leads straight to its page.
pub async fn show(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let text = typed.text("q").unwrap_or_default().trim();
    let is_long = text.chars().count() > CHARS_MAX;
    let found = match is_long {
        true => SearchResult::default(),
        false => search::search(&visit.operation(), text).await?,
    };
    if let [hit] = &found.hits[..] {
        return Ok(visit.go(&path(&visit, hit)));
    }
    let db = visit.store().api_reader();
    let tenants = found.hits.iter().filter_map(SearchHit::tenant);
    let names = TenantNames::of(db, tenants).await?;
    let filled = FormState::with([("q", text.to_owned())]);
    let field = Field::search("q", visit.t("console-search-label")).filter();
    let content = html! {
        form.search role="search" method="get" action=(PATH) {
            div.row {
                (field.hint(visit.t("console-search-hint")).show(&visit, &filled))
                button type="submit" { (visit.t("page-search")) }
            }
        }
        @if !found.hits.is_empty() {
            (list(&visit, &found, &names))
        } @else if !text.is_empty() {
            (empty(&visit.t("console-search-none"), &visit.t("console-search-none-words"), html! {}))
        }
    };
    Ok(layout::page(&visit, &visit.t("console-search"), content))
}

fn list(visit: &ConsoleView, found: &SearchResult, names: &TenantNames) -> Markup {
    html! {
        ul.hits {
            @for hit in &found.hits {
                li {
                    span.muted { (visit.t(kind(hit))) } " "
                    a href=(path(visit, hit)) { (name(hit)) }
                    @if let Some(tenant) = hit.tenant() { " " (names.link(tenant)) }
                }
            }
        }
        @if found.has_more { p.muted { (visit.t("console-search-more")) } }
    }
}

const fn kind(hit: &SearchHit) -> &'static str {
    match hit {
        SearchHit::Tenant(..) => "console-tenant",
        SearchHit::Call(..) => "console-call",
        SearchHit::Number(..) => "console-number",
        SearchHit::Bridge(..) => "console-bridge",
        SearchHit::Webhook(..) => "console-webhook",
        SearchHit::Delivery(..) => "console-delivery",
        SearchHit::Agent(..) => "console-agent",
        SearchHit::Key(..) => "console-key",
        SearchHit::User(..) => "console-user",
        SearchHit::Event(..) => "console-event",
        SearchHit::Request(..) => "console-request",
        SearchHit::Caller(_) => "console-calls-from",
    }
}

fn name(hit: &SearchHit) -> Markup {
    match hit {
        SearchHit::Tenant(id, name) => html! { (name) " " (short_id(&id.to_string())) },
        SearchHit::Bridge(_, name)
        | SearchHit::Agent(_, _, name)
        | SearchHit::Key(_, _, name)
        | SearchHit::User(_, _, name)
        | SearchHit::Webhook(_, _, name) => html! { (name) },
        SearchHit::Number(_, _, did) => html! { (did.as_str()) },
        SearchHit::Caller(number) => html! { (format!("{number:?}")) },
        SearchHit::Call(id, _) => short_id(&id.to_string()),
        SearchHit::Delivery(id, _) => short_id(&id.to_string()),
        SearchHit::Event(id, ..) => short_id(&id.to_string()),
        SearchHit::Request(id, _) => short_id(&id.to_string()),
    }
}

/// The page of what was found.
fn path(visit: &ConsoleView, hit: &SearchHit) -> String {
    match hit {
        SearchHit::Tenant(id, _) => format!("/tenants/{id}"),
        SearchHit::Call(id, _) | SearchHit::Event(_, id, _) => format!("/calls/{id}"),
        SearchHit::Number(id, ..) if visit.may_change() => format!("/numbers/{id}"),
        SearchHit::Number(_, tenant, _) => format!("/tenants/{tenant}/numbers"),
        SearchHit::Bridge(id, _) => format!("/bridges/{id}"),
        SearchHit::Webhook(id, ..) => format!("/webhooks/{id}"),
        SearchHit::Delivery(id, _) => format!("/deliveries/{id}"),
        // Agents have no page of their own here.
        SearchHit::Agent(_, tenant, _) => format!("/tenants/{tenant}"),
        SearchHit::Key(_, tenant, _) => format!("/tenants/{tenant}/keys"),
        SearchHit::User(_, tenant, _) => format!("/tenants/{tenant}/users"),
        SearchHit::Request(_, at) => format!("/audit?from={at}&to={}", at.plus_ms(1)),
        SearchHit::Caller(number) => {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("callerNumber", number.as_str());
            format!("/calls?{}", query.finish())
        }
    }
}
