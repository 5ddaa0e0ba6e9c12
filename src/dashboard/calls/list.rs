//! The list of calls.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{CallId, CallerNumber};
use maud::{Markup, html};

use super::{
    super::{
        components::{empty, paging_as},
        follow::{self, FollowedPart},
        form::FormState,
        layout,
        view::SignedIn,
    },
    PATH, counted,
    filter::{self, CallQuery},
    rows::{self, CallNames},
};
use crate::{
    http::error::ApiError,
    operations::calls::{self, CallList},
    pages::live,
};

/// `GET /dashboard/calls`
pub async fn list(visit: SignedIn, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let title = visit.t("calls-title");
    match CallQuery::read(request.query_string(), visit.zone())? {
        Ok(asked) => {
            // Read before the rows: an event committed in between is then sent twice rather than missed.
            let position = follow::position(&visit).await?;
            let (db, tenant) = (visit.store().api_reader(), visit.tenant());
            let (found, since) = calls::searched_page(db, tenant, &asked.filter).await?;
            let last = found.calls.last().map(|call| call.id);
            let older = if found.has_more { last } else { since };
            let content = content(&visit, &asked, &found, (position, older)).await?;
            Ok(layout::page(&visit, &title, content))
        }
        Err(filled) => {
            let form = filter::form(&visit, &filled).await?;
            Ok(layout::refused(&visit, &title, form))
        }
    }
}

async fn content(
    visit: &SignedIn,
    asked: &CallQuery,
    found: &CallList,
    (position, older): (i64, Option<CallId>),
) -> Result<Markup, ApiError> {
    let names = CallNames::for_rows(visit, &found.calls).await?;
    let filled = if asked.is_narrow() {
        asked.filled()
    } else {
        FormState::blank()
    };
    let form = filter::form(visit, &filled).await?;
    let count = match asked.is_narrow() {
        true => Some(counted::read(visit, &asked.filter).await?),
        false => None,
    };
    Ok(html! {
        (form)
        div.above {
            @if let Some(count) = &count { p.counted { (count.show(visit)) } }
            (live::sign(visit))
            a.button.secondary href=(export_path(asked)) download { (visit.t("calls-csv")) }
        }
        (live::news(visit))
        (live::followed(visit, FollowedPart::Calls, &followed_query(asked), position, html! {
            // An empty table is rendered too, so that the stream can add the first row.
            (rows::table(visit, &visit.t("calls-title"), &found.calls, &names))
            @if found.calls.is_empty() { div data-none { (nothing(visit, asked)) } }
        }))
        (paging(visit, asked, older))
    })
}

/// The path of the list of all calls from this caller.
pub fn calls_of(caller: &CallerNumber) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("callerNumber", caller.as_str());
    format!("{PATH}?{}", query.finish())
}

/// The stream's query: the filters, and a mark on pages other than the first, which get no new rows.
fn followed_query(asked: &CallQuery) -> String {
    let query = asked.query();
    let older = if asked.is_first_page() {
        ""
    } else {
        "&older=1"
    };
    let and = if query.is_empty() { "" } else { "&" };
    format!("{older}{and}{query}")
}

fn export_path(asked: &CallQuery) -> String {
    let query = asked.query();
    match query.is_empty() {
        true => format!("{PATH}.csv"),
        false => format!("{PATH}.csv?{query}"),
    }
}

fn nothing(visit: &SignedIn, asked: &CallQuery) -> Markup {
    let (title, words, link) = match asked.is_narrow() {
        true => (
            "calls-none-found",
            "calls-none-found-words",
            (PATH, "calls-filter-none"),
        ),
        false => (
            "calls-none",
            "calls-none-words",
            ("/dashboard", "calls-none-link"),
        ),
    };
    let link = html! { a.button.secondary href=(link.0) { (visit.t(link.1)) } };
    empty(&visit.t(title), &visit.t(words), link)
}

/// Links to older calls and back to the newest.
fn paging(visit: &SignedIn, asked: &CallQuery, older: Option<CallId>) -> Markup {
    let query = asked.query();
    let path = |more: &str| {
        let all: Vec<&str> = [query.as_str(), more]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        match all.is_empty() {
            true => PATH.to_owned(),
            false => format!("{PATH}?{}", all.join("&")),
        }
    };
    let older = older.map(|older| path(&format!("before={older}")));
    let newest = (!asked.is_first_page()).then(|| path(""));
    let ids = ("calls-newest", "page-older");
    paging_as(visit, ids, newest.as_deref(), older.as_deref())
}
